package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pillion-dev/pillion/e2e/ground"
)

const usage = "usage: ground up | down | demo | walk | pictures | programs [GROUND=…,K8S=…,HELM=…]… [cert-manager] [prometheus] [before] | image FILE | helm | kinds"

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
	if command == "image" && len(args) == 1 {
		return image(ctx, checkout, args[0])
	}
	if command == "programs" {
		return programs(ctx, checkout, args)
	}
	if len(args) > 0 {
		return errors.New(usage)
	}
	switch command {
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
	case "pictures":
		return pictures(ctx, checkout)
	}
	return fmt.Errorf("unknown command; %s", usage)
}

// programs builds what the tests on each of the grounds run, and what else they name; without a
// ground, on that of the environment.
func programs(ctx context.Context, checkout ground.Checkout, args []string) error {
	var grounds []ground.Options
	var others []string
	for _, arg := range args {
		if arg == "before" {
			if err := checkout.BuildBefore(ctx, os.Stdout); err != nil {
				return err
			}
			continue
		}
		if !strings.Contains(arg, "=") {
			others = append(others, arg)
			continue
		}
		o, err := ground.ParseOptions(arg)
		if err != nil {
			return err
		}
		grounds = append(grounds, o)
	}
	if len(grounds) == 0 {
		grounds = append(grounds, ground.FromEnvironment())
	}
	return ground.BuildPrograms(ctx, checkout, grounds, others, os.Stdout)
}

// image builds Pillion's image into an OCI archive.
func image(ctx context.Context, checkout ground.Checkout, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	reference, err := checkout.Image()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "pillion-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	digest, err := ground.BuildImage(ctx, checkout, scratch, "oci-archive:"+path+":"+reference.String())
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s@%s\n", file, reference, digest)
	return nil
}
