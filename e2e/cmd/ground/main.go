package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pillion-dev/pillion/e2e/ground"
)

const usage = "usage: ground up | down | demo | walk | programs [cert-manager] [prometheus] | helm | kinds"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "ground "+os.Args[1]+":", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command string, args []string) error {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		return err
	}
	switch command {
	case "programs":
		return ground.BuildPrograms(ctx, checkout, ground.FromEnvironment(), args, os.Stdout)
	case "helm": // its path
		path, err := ground.BuildHelm(ctx, checkout, ground.FromEnvironment(), os.Stderr)
		if err == nil {
			fmt.Println(path)
		}
		return err
	case "kinds":
		fmt.Println(strings.Join(ground.Kinds(), " "))
		return nil
	case "up":
		return up(ctx, checkout)
	case "hold": // what up leaves running; not for people
		return hold(ctx, checkout)
	case "down":
		return down(ctx, checkout)
	case "demo":
		return demo(ctx, checkout)
	case "walk":
		return walk(ctx, checkout)
	}
	return fmt.Errorf("unknown command; %s", usage)
}
