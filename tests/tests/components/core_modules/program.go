// The tool `go`, which uses what programs of Go use: output without a buffer, a large stdin, a
// large heap, a directory, and goroutines with timers.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const schema = `{"name":"go","description":"Go","parameters":{"type":"object","properties":{}}}`

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--schema" {
		os.Stdout.WriteString(schema)
		return
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	names := []string{}
	entries, err := os.ReadDir(".")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	written := os.WriteFile("written", []byte("w"), 0o600)
	_, outside := os.ReadFile("/etc/passwd")
	answer, err := json.Marshal(map[string]any{
		"input":   len(input),
		"heap":    heap(300),
		"names":   names,
		"slept":   slept(),
		"written": fmt.Sprint(written),
		"outside": outside != nil,
	})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(string(answer))
}

// heap fills a heap of this number of MiB, and returns the number that are intact.
func heap(size int) int {
	parts := make([][]byte, size)
	for i := range parts {
		parts[i] = make([]byte, 1<<20)
		for j := 0; j < len(parts[i]); j += 512 {
			parts[i][j] = byte(i)
		}
		os.Stderr.WriteString(".")
	}
	intact := 0
	for i, part := range parts {
		good := true
		for j := 0; j < len(part); j += 512 {
			good = good && part[j] == byte(i)
		}
		if good {
			intact++
		}
	}
	return intact
}

// slept returns the number of goroutines that slept for as long as they were to.
func slept() int {
	var wait sync.WaitGroup
	var lock sync.Mutex
	good := 0
	for i := 0; i < 100; i++ {
		wait.Add(1)
		go func(pause time.Duration) {
			defer wait.Done()
			begun := time.Now()
			time.Sleep(pause)
			if time.Since(begun) >= pause {
				lock.Lock()
				good++
				lock.Unlock()
			}
		}(time.Duration(i) * time.Millisecond)
	}
	wait.Wait()
	return good
}
