<?php
// Holds a lock whose value is the time at which it ends, cut to whole seconds: a lease of 1 s for 0.8 s of work.
// Arguments: unix socket of the server, key. For each line of standard input it acquires the lock late in a second,
// prints "in", works, prints when its work ended, and releases the lock if it is still its own.

[, $socket, $key] = $argv;
$redis = new Redis();
$redis->connect($socket);

while (fgets(STDIN) !== false) {
    while (fmod(microtime(true), 1) < 0.7) {
        usleep(1000);
    }
    $value = (string) (time() + 1);
    if (!$redis->setnx($key, $value)) {
        exit(1);
    }
    echo "in\n";
    usleep(800000);
    printf("%.6f\n", microtime(true));
    if ($redis->get($key) === $value) {
        $redis->del($key);
    }
}
