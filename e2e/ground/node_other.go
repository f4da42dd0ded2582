//go:build !linux

package ground

import (
	"context"
	"errors"
	"io"
)

// Node needs Linux.
type Node struct{ Ground }

var errNoNode = errors.New("it needs Linux")

func nodeCanRun() error { return errNoNode }

// StartNode needs Linux.
func StartNode(context.Context, Checkout, Options, io.Writer) (*Node, error) { return nil, errNoNode }

// StaticPods needs Linux.
func (g *Node) StaticPods() string { return "" }

func removeCgroups(string) error { return nil }

func removeWire(string) error { return nil }
