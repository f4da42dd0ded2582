package ground

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// serviceRange is inside the node's network only.
var serviceRange = netip.MustParsePrefix("10.96.0.0/16")

// A network is what one node uses of 198.18.0.0/15, the addresses that are set aside for
// tests of networks (RFC 2544), so that several stand side by side: 198.18.n.0/30 is the
// wire between this machine and the node, 198.19.n.0/24 is for pods.
type network struct{ n byte }

func (w network) host() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, w.n, 1}) }
func (w network) node() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, w.n, 2}) }
func (w network) pods() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, w.n, 0}), 24)
}

// wire is the name of this machine's end.
func (w network) wire() string { return "pillion" + strconv.Itoa(int(w.n)) }

// wireFile is the file in a node's folder that has the name of its wire.
const wireFile = "wire"

// removeWire takes down the wire of the node whose folder is dir, if it has one. The wire
// is gone with the node's network too, but that outlives the node's processes for minutes
// where they were killed in the middle of a conversation.
func removeWire(dir string) error {
	name, err := os.ReadFile(filepath.Join(dir, wireFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Asked first and deleted then, it could go in between.
	err = command(context.Background(), here(), "ip", "link", "delete", string(name))
	if _, missing := net.InterfaceByName(string(name)); missing != nil {
		return nil
	}
	return err
}

// newNetwork lays a wire between this machine and the space, and writes its name to dir.
func newNetwork(ctx context.Context, s *space, dir string) (network, error) {
	var last error
	for _, n := range rand.Perm(256)[:16] {
		w := network{byte(n)}
		if taken, err := w.taken(); err != nil || taken {
			last = errors.Join(err, fmt.Errorf("%s is in use", w.host()))
			continue
		}
		// Of two grounds that choose the same name at the same time, one fails.
		last = command(ctx, here(), "ip", "link", "add", w.wire(), "type", "veth", "peer", "name", "node0", "netns", strconv.Itoa(s.first.cmd.Process.Pid))
		if last != nil {
			continue
		}
		return w, errors.Join(os.WriteFile(filepath.Join(dir, wireFile), []byte(w.wire()), 0o600), w.connect(ctx, s))
	}
	return network{}, last
}

// taken tells whether this machine uses the wire's addresses already.
func (w network) taken() (bool, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	wire := netip.PrefixFrom(w.host(), 30).Masked()
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && (wire.Overlaps(prefix.Masked()) || w.pods().Overlaps(prefix.Masked())) {
			return true, nil
		}
	}
	return false, nil
}

func (w network) connect(ctx context.Context, s *space) error {
	for _, step := range []struct {
		fork *forker
		args []string
	}{
		{s.fork, []string{"link", "set", "lo", "up"}},
		{s.fork, []string{"addr", "add", w.node().String() + "/30", "dev", "node0"}},
		{s.fork, []string{"link", "set", "node0", "up"}},
		// A Service's address is translated only after a route for it was found.
		{s.fork, []string{"route", "add", serviceRange.String(), "dev", "node0"}},
		{here(), []string{"addr", "add", w.host().String() + "/30", "dev", w.wire()}},
		{here(), []string{"link", "set", w.wire(), "up"}},
		{here(), []string{"route", "add", w.pods().String(), "via", w.node().String()}},
	} {
		if err := command(ctx, step.fork, "ip", step.args...); err != nil {
			return err
		}
	}
	return s.fork.do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) })
}

// dial connects to address from inside the node's network, as kube-apiserver does, and
// closes the connection.
func (s *space) dial(address netip.AddrPort) error {
	return s.fork.do(func() error {
		connection, err := net.DialTimeout("tcp", address.String(), time.Second)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
}
