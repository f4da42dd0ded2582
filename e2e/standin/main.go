// Command standin takes the place of other people's software in the pods of the
// end-to-end tests and the demo: no image of theirs can be pulled there, and what is
// tested is not what they do, but that they run.
//
//	standin [ARGUMENT]...        serve, until asked to end
//	standin get URL              GET URL until it answers 200, print the answer, and end
//	standin quote FILE           print the file, quoted, and serve
//	standin pause                wait, as the container that holds a pod's sandbox does
//
// Serving, it answers every request with 200 on the ports of LISTEN (set in the image)
// and of STANDIN_LISTEN (set by a pod), lists of ports separated by commas. The answer
// names the software and says which path was asked for. When an argument is among the
// words of EXIT_ON (set in the image), it ends at once instead: software that is an init
// container under one command and a sidecar under another.
//
// What it was started with is the first line of its log.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "pause":
		<-ctx.Done()
		return nil
	case len(args) == 2 && args[0] == "get":
		return get(ctx, args[1])
	}
	if len(args) == 2 && args[0] == "quote" {
		text, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		fmt.Printf("%s has %q\n", args[1], text)
	}
	software := os.Getenv("SOFTWARE")
	fmt.Printf("standing in for %s, user %d, arguments %q\n", software, os.Getuid(), args)
	for _, word := range strings.Fields(os.Getenv("EXIT_ON")) {
		if slices.Contains(args, word) {
			fmt.Println("nothing to do for", word)
			return nil
		}
	}
	return serve(ctx, software, os.Getenv("LISTEN")+","+os.Getenv("STANDIN_LISTEN"))
}

func serve(ctx context.Context, software, listen string) error {
	ports := slices.Sorted(slices.Values(strings.FieldsFunc(listen, func(r rune) bool { return r == ',' || r == ' ' })))
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s answers %s\n", software, r.URL.Path)
		}),
	}
	failed := make(chan error, len(ports))
	for _, port := range slices.Compact(ports) {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		fmt.Println("listening on port", port)
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	fmt.Println("asked to end")
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return server.Shutdown(limited)
}

// get asks until it is answered, since who it asks may still be starting.
func get(ctx context.Context, url string) error {
	client := &http.Client{Timeout: 5 * time.Second}
	for tries := 1; ctx.Err() == nil; tries++ {
		response, err := client.Get(url)
		if err != nil {
			fmt.Printf("try %d: %v\n", tries, err)
		} else {
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			fmt.Printf("try %d: %s\n", tries, strings.TrimSpace(string(body)))
			if err == nil && response.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return context.Cause(ctx)
}
