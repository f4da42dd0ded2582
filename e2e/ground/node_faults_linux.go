package ground

import (
	"context"
	"fmt"
	"strings"
)

// cutTable is the table of nftables that holds what CutOff drops.
const cutTable = "pillion_cut"

// CutOff drops all packets of the connections that the replicas make to kube-apiserver, those
// that stand too: what they send, and what comes back, since a watch brings its next event
// before anybody misses an answer. Connections that kube-apiserver makes to the replicas pass.
// Reconnect ends it.
func (g *Node) CutOff(ctx context.Context, replicas ...Replica) error {
	var names, addresses []string
	for _, r := range replicas {
		names, addresses = append(names, r.Name), append(addresses, r.Serve.Addr().String())
	}
	rules := fmt.Sprintf(`table inet %[1]s {
	chain input {
		type filter hook input priority -10;
		ip saddr {%[2]s} tcp dport %[3]d drop
	}
	chain output {
		type filter hook output priority -10;
		ip daddr {%[2]s} tcp sport %[3]d drop
	}
}
`, cutTable, strings.Join(addresses, ", "), apiServerPort)
	if err := command(ctx, g.space.fork, "sh", "-c", "nft -f - <<'END'\n"+rules+"END"); err != nil {
		return fmt.Errorf("cutting %s off from kube-apiserver: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// Reconnect ends what CutOff did.
func (g *Node) Reconnect(ctx context.Context) error {
	err := command(ctx, g.space.fork, "nft", "delete", "table", "inet", cutTable)
	if err != nil && !strings.Contains(err.Error(), "No such file") {
		return fmt.Errorf("letting a replica reach kube-apiserver again: %w", err)
	}
	return nil
}
