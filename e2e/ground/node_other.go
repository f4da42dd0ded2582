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

// Registry needs Linux.
func (g *Node) Registry() string { return "" }

// APIServers needs Linux.
func (g *Node) APIServers() []*APIServer { return nil }

// Kubeconfigs needs Linux.
func (g *Node) Kubeconfigs() []string { return nil }

// CutOff needs Linux.
func (g *Node) CutOff(context.Context, ...Replica) error { return errNoNode }

// Reconnect needs Linux.
func (g *Node) Reconnect(context.Context) error { return errNoNode }

func removeCgroups(string) error { return nil }

func removeWire(string) error { return nil }
