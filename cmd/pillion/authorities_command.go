package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/certs"
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/state"
)

// shortestPrefix is how many digits of a fingerprint name a CA at least.
const shortestPrefix = 8

// revokeInterval is how often revoke looks at the caBundles.
const revokeInterval = 250 * time.Millisecond

func newCertsListCommand() *cobra.Command {
	var where inspect.Place
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the CAs with fingerprint, state and validity",
		Long: `List asks every replica, and reads the caBundles of the webhook configurations.
You need the permissions that 'pillion status' needs. The states of a CA:

  signing   the replicas serve certificates that this CA signed
  next      staged: in every caBundle, and signs when it has been there long
            enough
  trusted   replaced; certificates that it signed may be in use until the time
            shown
  revoked   in no caBundle since the time shown; it never comes back

A CA in a caBundle that no replica knows is listed as "in a caBundle only". The
exit code is 1 if a replica does not answer, or there is none.`,
		Example: `  pillion certs list
  pillion certs list --pillion-namespace sidecars`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			cluster, replicas, err := findReplicas(ctx, out, where)
			if err != nil {
				return err
			}
			found, err := look(ctx, cluster, replicas)
			if err != nil {
				return err
			}
			return found.list(out, where.Namespace)
		},
	}
	placeFlags(cmd.Flags(), &where)
	replicaFlag(cmd.Flags(), &where)
	return cmd
}

func newCertsRevokeCommand() *cobra.Command {
	var r revocation
	cmd := &cobra.Command{
		Use:   "revoke FINGERPRINT",
		Short: "Remove a CA from every caBundle, and keep it out",
		Long: `Revoke writes the CA's fingerprint into the Secret of Pillion's certificates.
Every replica then refuses the CA, whatever is put into the Secret afterwards.
Revoke waits until no caBundle has the CA. The exit code is 1 if a caBundle
still has it.

The fingerprint is the SHA-256 of the certificate, as 'pillion certs list'
prints it or 'openssl x509 -noout -fingerprint -sha256'. Eight digits are enough
if they name one CA.

If the CA signs, another CA takes over. Both are in the caBundles for four
seconds. An API server that sees a change later than a second may refuse Pillion
for a moment.

You need the permissions to get and update the Secret, and those of 'pillion
status'. With --secret the replicas need not answer.`,
		Example: `  pillion certs revoke 3f5a90c1
  pillion certs revoke --secret pillion-ca 3F:5A:90:C1:…`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{Err: fmt.Errorf("%s takes one fingerprint, got %q", cmd.CommandPath(), args)}
			}
			digits, err := certs.FingerprintDigits(args[0])
			if err == nil && len(digits) < shortestPrefix {
				err = fmt.Errorf("%q is too short: give at least %d digits of the fingerprint", args[0], shortestPrefix)
			}
			if err != nil {
				return usageError{Err: err}
			}
			r.digits = digits
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			cluster, replicas, err := findReplicas(ctx, out, r.where)
			if err != nil && (cluster == nil || r.secret == "") {
				return err
			}
			if err != nil {
				fmt.Fprintf(out, "no replica is asked: %v\n", err)
			}
			config, err := clusterConfig(r.where)
			if err != nil {
				return err
			}
			client, err := clientset.New(config)
			if err != nil {
				return fmt.Errorf("making a client: %w", err)
			}
			return r.run(ctx, out, cluster, client, replicas)
		},
	}
	f := cmd.Flags()
	placeFlags(f, &r.where)
	replicaFlag(f, &r.where)
	f.StringVar(&r.secret, "secret", "", "name of the Secret, if no replica answers (self-signed: certs.secretName; cert-manager with publish: certs.certManager.secretName)")
	f.DurationVar(&r.timeout, "timeout", time.Minute, "how long to wait until no caBundle has the CA")
	return cmd
}

// findReplicas returns the cluster, nil if it does not answer, and the replicas. It prints a line for
// each pod of Pillion that does not run.
func findReplicas(ctx context.Context, out io.Writer, where inspect.Place) (*inspect.Cluster, []inspect.Replica, error) {
	cluster, err := openCluster(where)
	if err == nil {
		err = cluster.Answers(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	replicas, notRunning, err := cluster.FindReplicas(ctx)
	for _, line := range notRunning {
		fmt.Fprintln(out, line)
	}
	return cluster, replicas, err
}

// found is what replicas and webhook configurations say at one moment.
type found struct {
	answers        []state.Replica
	configurations []configuration
	authorities    []*authority
}

// look asks the replicas and reads the webhook configurations.
func look(ctx context.Context, cluster *inspect.Cluster, replicas []inspect.Replica) (found, error) {
	f := found{answers: inspect.AskAll(ctx, replicas)}
	var err error
	if f.configurations, err = configurationsOf(ctx, cluster, f.answers); err != nil {
		return f, err
	}
	f.authorities = authoritiesOf(f.configurations, f.answers)
	return f, nil
}

// list prints the CAs. It returns errRefused where a replica does not say what it knows of them,
// or there is none.
func (f found) list(w io.Writer, namespace string) error {
	var out strings.Builder
	complete := len(f.answers) > 0
	if !complete {
		fmt.Fprintln(&out, inspect.NoReplicas(namespace))
	}
	for _, a := range f.answers {
		if !a.Answers {
			fmt.Fprintf(&out, "no answer: %s: %s\n", a.Name, a.Missing)
			complete = false
		}
	}
	writeAuthorities(&out, f.authorities)
	if _, err := io.WriteString(w, out.String()); err != nil || complete {
		return err
	}
	return errRefused
}

// authority returns the CA with the fingerprint; nil if nothing has it.
func (f found) authority(fingerprint certs.Fingerprint) *authority {
	i := slices.IndexFunc(f.authorities, func(a *authority) bool { return a.fingerprint == fingerprint.String() })
	if i < 0 {
		return nil
	}
	return f.authorities[i]
}

// revocation is one call of revoke.
type revocation struct {
	where   inspect.Place
	digits  string
	secret  string
	timeout time.Duration
}

func (r revocation) run(ctx context.Context, out io.Writer, cluster *inspect.Cluster, client kubernetes.Interface, replicas []inspect.Replica) error {
	now, err := look(ctx, cluster, replicas)
	if err != nil {
		return err
	}
	fingerprint, err := r.resolve(now.authorities)
	if err != nil {
		return err
	}
	provider := providerOf(now.answers)
	switch {
	case r.secret != "":
		provider = certs.ProviderStatus{Name: provider.Name, Secret: r.secret, Publishes: true}
	case provider.Name == "":
		return fmt.Errorf("no replica in namespace %s says which Secret has its CA, or they differ: name the Secret with --secret (the chart's default is pillion-ca)", r.where.Namespace)
	case !provider.Publishes:
		return elsewhere(out, r.where.Namespace, provider, now.authority(fingerprint))
	}
	if err := certs.Revoke(ctx, client, r.where.Namespace, provider.Secret, fingerprint); err != nil {
		return fmt.Errorf("revoking the CA %s: %w", fingerprint, err)
	}
	fmt.Fprintf(out, "revoked %s in secret %s/%s\n", fingerprint, r.where.Namespace, provider.Secret)
	known := now.authority(fingerprint)
	if known == nil {
		fmt.Fprintln(out, "no caBundle has this CA, and no replica knows it: it is refused from now on")
	}
	if provider.Name == certManager && known != nil && known.is(certs.SigningAuthority) {
		fmt.Fprint(out, "this CA signs: it stays in the caBundles until cert-manager has issued a certificate by another one\n"+renewal(r.where.Namespace, provider.Secret))
	}
	return r.wait(ctx, out, cluster, replicas, fingerprint)
}

// resolve returns the fingerprint with the digits. A whole fingerprint may be unknown: a CA
// can be revoked before somebody puts it back.
func (r revocation) resolve(list []*authority) (certs.Fingerprint, error) {
	if whole, err := certs.ParseFingerprint(r.digits); err == nil {
		return whole, nil
	}
	var names []string
	for _, a := range list {
		if strings.HasPrefix(a.fingerprint, r.digits) {
			names = append(names, a.fingerprint)
		}
	}
	switch len(names) {
	case 0:
		return certs.Fingerprint{}, fmt.Errorf("no CA has a fingerprint that begins with %s; see 'pillion certs list', or give the whole fingerprint", r.digits)
	case 1:
		return certs.ParseFingerprint(names[0])
	}
	return certs.Fingerprint{}, fmt.Errorf("%d CAs have a fingerprint that begins with %s: %s", len(names), r.digits, strings.Join(names, ", "))
}

// wait returns when no caBundle has the CA and every replica that answers refuses it.
func (r revocation) wait(ctx context.Context, out io.Writer, cluster *inspect.Cluster, replicas []inspect.Replica, fingerprint certs.Fingerprint) error {
	start := time.Now()
	var still []string
	err := wait.PollUntilContextTimeout(ctx, revokeInterval, r.timeout, true, func(ctx context.Context) (bool, error) {
		now, err := look(ctx, cluster, replicas)
		if err != nil {
			return false, nil //nolint:nilerr // it is asked again
		}
		if still = now.still(fingerprint, r.secret == ""); len(still) == 0 {
			fmt.Fprintf(out, "after %s no caBundle has it: %d webhook configurations, %d replicas\n", time.Since(start).Round(time.Millisecond), len(now.configurations), len(replicas))
		}
		return len(still) == 0, nil
	})
	if err == nil {
		return nil
	}
	for _, line := range still {
		fmt.Fprintln(out, line)
	}
	return fmt.Errorf("the CA %s is revoked, and after %s it is not gone everywhere; the replicas take it out when they can: see 'pillion status' and their log", fingerprint, time.Since(start).Round(time.Second))
}

// still names the caBundles that have the CA, and the replicas that do not refuse it. all
// says that every replica has to answer.
func (f found) still(fingerprint certs.Fingerprint, all bool) []string {
	var lines []string
	if a := f.authority(fingerprint); a != nil {
		for _, entry := range a.entries {
			lines = append(lines, "still in the caBundle: "+entry)
		}
	}
	for _, a := range f.answers {
		refuses := slices.ContainsFunc(a.Certificates.Authorities, func(a state.Authority) bool {
			return a.Fingerprint == fingerprint.String() && a.State == string(certs.RevokedAuthority)
		})
		switch {
		case !a.Answers && !all:
		case !a.Answers:
			lines = append(lines, "no answer: "+a.Name+": "+a.Missing)
		case !refuses:
			lines = append(lines, "has not seen the revocation: "+a.Name)
		}
	}
	return lines
}

// elsewhere says what to do where Pillion does not write the caBundles.
func elsewhere(out io.Writer, namespace string, provider certs.ProviderStatus, a *authority) error {
	if a == nil || len(a.entries) == 0 {
		fmt.Fprintln(out, "no caBundle has this CA; Pillion does not write the caBundles, so it cannot keep the CA out of them")
		return nil
	}
	for _, entry := range a.entries {
		fmt.Fprintln(out, "in the caBundle: "+entry)
	}
	if provider.Name == certManager {
		fmt.Fprint(out, "cainjector writes the caBundles, and has one CA in them. Replace that CA, with its key:\n"+renewal(namespace, provider.Secret))
		return errors.New("the CA is not revoked: cainjector writes the caBundles, not Pillion")
	}
	fmt.Fprint(out, `You write the caBundles. Put another CA beside this one, then a certificate by that CA into
the mounted Secret. When 'pillion status' finds that every caBundle verifies every replica,
take this CA out of the entries above:
`)
	var objects []string
	for _, entry := range a.entries {
		object, _, _ := strings.Cut(entry, ",")
		if !slices.Contains(objects, object) {
			objects = append(objects, object)
			fmt.Fprintln(out, "    kubectl edit "+object)
		}
	}
	return errors.New("the CA is not revoked: with certs.provider=files Pillion does not write the caBundles")
}

// renewal returns the commands by which cert-manager issues another CA and a certificate of
// it, for the chart's own CA.
func renewal(namespace, secret string) string {
	return fmt.Sprintf(`    kubectl -n %[1]s delete secret %[2]s-ca    # the chart's CA; of an issuer of yours, replace the CA
    kubectl -n %[1]s wait --for=create secret/%[2]s-ca --timeout=1m
    kubectl -n %[1]s delete secret %[2]s
`, namespace, secret)
}
