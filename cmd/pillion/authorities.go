package main

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/certs"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/state"
)

// authority is a CA that a replica or a caBundle has.
type authority struct {
	fingerprint string

	// states are what the replicas say, each once.
	states []string

	// until is the time that goes with the state; zero if no replica says one.
	until time.Time

	// cert is nil if no caBundle has the CA.
	cert *x509.Certificate

	// entries are the entries of webhook configurations whose caBundle has the CA.
	entries []string
}

// is reports whether a replica says that the CA is in the state.
func (a *authority) is(state certs.AuthorityState) bool {
	return slices.Contains(a.states, string(state))
}

// authoritiesOf returns the CAs that the replicas and the caBundles have: the CA that signs
// first, the revoked ones last.
func authoritiesOf(configurations []configuration, replicas []state.Replica) []*authority {
	var list []*authority
	of := func(fingerprint string) *authority {
		for _, a := range list {
			if a.fingerprint == fingerprint {
				return a
			}
		}
		a := &authority{fingerprint: fingerprint}
		list = append(list, a)
		return a
	}
	for _, r := range replicas {
		for _, said := range r.Certificates.Authorities {
			a := of(said.Fingerprint)
			if !slices.Contains(a.states, said.State) {
				a.states = append(a.states, said.State)
			}
			if said.Until != nil {
				a.until = *said.Until
			}
		}
	}
	for _, c := range configurations {
		for _, e := range c.entries {
			for _, cert := range check.TrustedCAs(e.ClientConfig.CABundle) {
				a := of(certs.FingerprintOf(cert).String())
				a.cert = cert
				a.entries = append(a.entries, c.String()+", entry "+e.Name)
			}
		}
	}
	order := []certs.AuthorityState{certs.SigningAuthority, certs.NextAuthority, certs.TrustedAuthority, certs.RevokedAuthority}
	rank := func(a *authority) int {
		for i, state := range order {
			if a.is(state) {
				return i
			}
		}
		return len(order) - 1
	}
	slices.SortStableFunc(list, func(a, b *authority) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.fingerprint, b.fingerprint))
	})
	return list
}

// writeAuthorities writes a table of the CAs.
func writeAuthorities(out *strings.Builder, list []*authority) {
	var rows []string
	for _, a := range list {
		subject, valid, until := "unknown", "unknown", "unknown"
		if a.cert != nil {
			subject = a.cert.Subject.String()
			valid = a.cert.NotBefore.UTC().Format(time.RFC3339) + " to " + a.cert.NotAfter.UTC().Format(time.RFC3339)
		}
		if !a.until.IsZero() {
			until = a.until.Format(time.RFC3339)
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s", a.fingerprint, a.state(), until, len(a.entries), subject, valid))
	}
	inspect.WriteTable(out, "CA (SHA-256)\tSTATE\tUNTIL\tIN CABUNDLES\tSUBJECT\tVALID", rows)
}

// state returns the states for people.
func (a *authority) state() string {
	switch {
	case len(a.states) == 0:
		return "in a caBundle only"
	case a.is(certs.RevokedAuthority) && len(a.entries) > 0:
		return "revoked, leaving"
	}
	return strings.Join(a.states, ", ")
}

// providerOf returns what the replicas say of their provider. It is empty if no replica says
// anything, or if they differ.
func providerOf(replicas []state.Replica) certs.ProviderStatus {
	var said []certs.ProviderStatus
	for _, r := range replicas {
		c := r.Certificates
		p := certs.ProviderStatus{Name: c.Provider, Secret: c.Secret, Publishes: c.Publishes}
		if p.Name != "" && !slices.Contains(said, p) {
			said = append(said, p)
		}
	}
	if len(said) != 1 {
		return certs.ProviderStatus{}
	}
	return said[0]
}
