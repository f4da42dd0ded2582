package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/webhook"
)

// peersConfig are the settings of 'pillion serve' about the clients that may send reviews.
type peersConfig struct {
	ClientCAFile string
	ClientNames  []string
}

func (c *peersConfig) peersFlags(f *pflag.FlagSet) {
	f.StringVar(&c.ClientCAFile, "client-ca-file", "", "PEM file with the CAs of the API servers' client certificates: only their clients may send reviews (default: everybody may)")
	f.StringSliceVar(&c.ClientNames, "client-names", nil, "names that a client's certificate may have, as common name or DNS name (default: any); only with --client-ca-file")
}

func (c peersConfig) validate(wrong complaint) {
	if c.ClientCAFile == "" && len(c.ClientNames) > 0 {
		wrong("client-names", c.ClientNames, "it needs --client-ca-file, too")
	}
	if _, err := c.peers(); err != nil {
		wrong("client-ca-file", c.ClientCAFile, fmt.Sprintf("must be a PEM file of CA certificates: %v", err))
	}
}

// peers reads the file.
func (c peersConfig) peers() (webhook.Peers, error) {
	if c.ClientCAFile == "" {
		return webhook.Peers{}, nil
	}
	file, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return webhook.Peers{}, err
	}
	return webhook.ReadPeers(file, c.ClientNames)
}
