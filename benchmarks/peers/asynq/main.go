// Jobs of asynq: `asynq work`, and `asynq send KIND JOBS [RATE]`. Those of a killed worker run again after its lease of
// 30 seconds.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

func entry(values ...float64) []byte {
	bytes := make([]byte, 0, 16)
	for _, value := range values {
		bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(value))
	}
	return bytes
}

func work(server asynq.RedisConnOpt) {
	name := fmt.Sprintf("%s/%d", os.Getenv("PEER_RECORDS"), os.Getpid())
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	job := func(after func()) asynq.HandlerFunc {
		return func(_ context.Context, task *asynq.Task) error {
			due := math.Float64frombits(binary.LittleEndian.Uint64(task.Payload()))
			_, err := file.Write(entry(due, now()))
			after()
			return err
		}
	}
	mux := asynq.NewServeMux()
	mux.Handle("noop", job(func() {}))
	mux.Handle("io", job(func() { time.Sleep(time.Millisecond) }))
	mux.Handle("cpu", job(func() {
		for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
		}
	}))
	workers := asynq.NewServer(server, asynq.Config{Concurrency: 100, LogLevel: asynq.WarnLevel})
	if err := workers.Start(mux); err != nil {
		log.Fatal(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	workers.Shutdown()
}

func send(server asynq.RedisConnOpt, kind string, jobs int, rate float64) {
	client := asynq.NewClient(server)
	defer client.Close()
	due := now()
	for sent := 0; sent < jobs; sent++ {
		if rate > 0 {
			due += rand.ExpFloat64() / rate
			time.Sleep(time.Duration((due - now()) * 1e9))
		}
		if _, err := client.Enqueue(asynq.NewTask(kind, entry(due))); err != nil {
			log.Fatal(err)
		}
	}
}

func main() {
	server, err := asynq.ParseRedisURI(os.Getenv("PEER_REDIS"))
	if err != nil {
		log.Fatal(err)
	}
	if os.Args[1] == "work" {
		work(server)
		return
	}
	jobs, _ := strconv.Atoi(os.Args[3])
	rate := 0.0
	if len(os.Args) > 4 {
		rate, _ = strconv.ParseFloat(os.Args[4], 64)
	}
	send(server, os.Args[2], jobs, rate)
}
