// Command etcd runs one etcd member for a throwaway control plane.
//
// It writes without fsync: the data live exactly as long as the ground that
// started it, and a machine that crashes takes both.
//
// Usage: etcd DATA-DIR HOST CLIENT-PORT PEER-PORT
package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: etcd DATA-DIR HOST CLIENT-PORT PEER-PORT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(dir, host, clientPort, peerPort string) error {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "error"
	cfg.UnsafeNoFsync = true
	client := url.URL{Scheme: "http", Host: net.JoinHostPort(host, clientPort)}
	peer := url.URL{Scheme: "http", Host: net.JoinHostPort(host, peerPort)}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting on %s: %w", client.Host, err)
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case err := <-server.Err():
		return err
	case <-stop:
		return nil
	}
}
