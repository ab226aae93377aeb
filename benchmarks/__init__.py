"""The benchmarks: every figure beside a floor that plain redis-py reaches in the same run on the same server."""
