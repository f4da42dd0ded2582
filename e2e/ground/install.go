package ground

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Where Install puts Pillion, as the README does.
const (
	Release   = "pillion"
	Namespace = "pillion-system"
)

// InstallArgs are the arguments of helm that install the chart, with more of them at the
// end. They have --wait where pods run: on a ground without nodes the Deployment's pods
// never become ready, and Rollout is what waits.
func InstallArgs(g Ground, chart string, more ...string) []string {
	args := []string{"install", Release, chart, "-n", Namespace, "--create-namespace"}
	if g.Kind() == KindNode {
		args = append(args, "--wait")
	}
	return append(args, more...)
}

// Install installs Pillion's chart with the ground's helm, and waits until Pillion is ready.
func Install(ctx context.Context, g Ground, c Checkout, more ...string) error {
	if _, err := Run(ctx, g, "helm", InstallArgs(g, c.Chart(), more...)...); err != nil {
		return err
	}
	return g.Rollout(ctx, Namespace)
}

// Run runs one of the ground's tools and returns what it wrote to standard output. The
// error of a tool that failed holds all that it wrote.
func Run(ctx context.Context, g Ground, tool string, args ...string) (string, error) {
	out, _, err := Exec(ctx, g, "", tool, args...)
	return out, err
}

// Exec is Run for a tool that reads standard input. It also returns what the tool wrote to
// standard error.
func Exec(ctx context.Context, g Ground, input, tool string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, g.Tool(tool), args...)
	cmd.Env, cmd.Stdin = g.Env(), strings.NewReader(input)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", tool, strings.Join(args, " "), err, &out, &errs)
	}
	return out.String(), errs.String(), err
}
