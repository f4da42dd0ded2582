package ground

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
)

// A loopback is the part of 127.0.0.0/8 that one ground keeps to, so that several stand
// side by side: 127.a.b.0/24, whose lower half is the Service range and whose upper half
// has the addresses of the ground's own programs.
type loopback struct{ a, b byte }

// newLoopback chooses at random among some 65,000; 127.0 is left to everybody else.
func newLoopback() loopback {
	return loopback{byte(1 + rand.IntN(254)), byte(rand.IntN(256))}
}

func (l loopback) address(last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, l.a, l.b, last})
}

func (l loopback) services() netip.Prefix { return netip.PrefixFrom(l.address(0), 25) }

func (l loopback) controlPlane() netip.Addr { return l.address(129) }

// replica is the address of Pillion's replica number n, counted from zero.
func (l loopback) replica(n int) netip.Addr { return l.address(byte(130 + n)) }

// maxReplicas is how many addresses replica has.
const maxReplicas = 100

// freePorts are n different ports that nobody listens on at addr, nor on all addresses.
func freePorts(addr netip.Addr, n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp4", netip.AddrPortFrom(addr, 0).String())
		if err != nil {
			return nil, fmt.Errorf("looking for a free port on %s: %w", addr, err)
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// mayListen says why this process cannot listen on the chart's Service port, if so.
func mayListen(l loopback, port int) error {
	listener, err := net.Listen("tcp4", netip.AddrPortFrom(l.replica(0), uint16(port)).String())
	if err == nil {
		return listener.Close()
	}
	if !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("listening on port %d, as Pillion's Service has it: %w", port, err)
	}
	return fmt.Errorf("this user may not listen on port %[1]d, and kube-apiserver calls Pillion on its Service's port: run as root, or allow it with: sudo sysctl net.ipv4.ip_unprivileged_port_start=%[1]d", port)
}
