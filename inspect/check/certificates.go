package check

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/proof"
	pillionrights "github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// endsSoon is the remaining time at which a certificate that Pillion does not replace causes a warning.
const endsSoon = 14 * 24 * time.Hour

func certificates(ctx context.Context, in *installation) ([]Finding, error) {
	var found []Finding
	name := in.release.Certificates.WebhookConfiguration
	for _, of := range []schema.GroupVersionResource{mutatingConfigurations, validatingConfigurations} {
		c, err := inspect.Get[admissionv1.ValidatingWebhookConfiguration](ctx, in.cluster, of, "", name) // the other kind has the same fields
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		for _, w := range c.Webhooks {
			found = append(found, in.checkBundle(strings.TrimSuffix(of.Resource, "s")+"/"+name, w)...)
		}
	}
	all, err := in.replicas()
	if err != nil {
		return found, err
	}
	// Pillion and cert-manager replace a certificate when a third of its time is left.
	soon := endsSoon
	if in.release.Certificates.Provider != "files" && in.release.Certificates.LeafDuration > 0 {
		soon = in.release.Certificates.LeafDuration / 6
	}
	for _, r := range all {
		for _, p := range r.Certificates.Published {
			if !p.Verifies && len(found) == 0 {
				found = append(found, failed(fmt.Sprintf("the caBundle of %s/%s does not verify the certificate of replica %s", strings.ToLower(p.Kind), p.Name, r.Name), in.logs()))
			}
		}
		if r.Certificates.Ends == nil {
			continue
		}
		switch left := r.Certificates.Ends.Sub(in.now).Round(time.Second); {
		case left <= 0:
			found = append(found, failed(fmt.Sprintf("the certificate that replica %s serves ended at %s", r.Name, r.Certificates.Ends.Format(time.RFC3339)), in.logs()))
		case left < soon:
			found = append(found, warning(fmt.Sprintf("the certificate that replica %s serves ends in %s", r.Name, left), in.logs()))
		}
	}
	return found, nil
}

// checkBundle checks the caBundle of an entry that calls Pillion.
func (in *installation) checkBundle(configuration string, w admissionv1.ValidatingWebhook) []Finding {
	if !in.isService(w.ClientConfig.Service) {
		return nil
	}
	writer, remedy := "you write it: the CA of the certificate in the mounted Secret (certs.files.secretName)", in.logs()
	switch {
	case in.release.Certificates.Publishes():
		writer = "Pillion restores it within a second if it runs and has the right to"
	case in.release.Certificates.Provider == "cert-manager":
		writer, remedy = "cert-manager's cainjector writes it, by the annotation cert-manager.io/inject-ca-from of the configuration", "kubectl -n cert-manager logs deployment/cert-manager-cainjector --tail=100"
	}
	if slices.ContainsFunc(TrustedCAs(w.ClientConfig.CABundle), func(ca *x509.Certificate) bool { return ca.NotAfter.After(in.now) }) {
		return nil
	}
	return []Finding{failed(fmt.Sprintf("%s: entry %s has no certificate in its caBundle that is valid; %s", configuration, w.Name, writer), remedy)}
}

// TrustedCAs returns the certificates of a caBundle.
func TrustedCAs(bundle []byte) []*x509.Certificate {
	var cas []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return cas
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			cas = append(cas, cert)
		}
	}
}

// checkProof creates a pod in the proof namespace by dry run.
func checkProof(ctx context.Context, in *installation) ([]Finding, error) {
	namespace := in.release.Namespaces.Proof
	if namespace == "" {
		return skipped("not checked: the installation has no proof namespace (enforcement)"), nil
	}
	pod, err := in.createDry(ctx, namespace, proof.Pod())
	if pillionrights.IsMissing(err) {
		return nil, err
	}
	code, ours := reason.OfRefusal(err)
	switch {
	case apierrors.IsNotFound(err):
		return []Finding{failed("there is no proof namespace "+namespace, in.restore())}, nil
	case ours:
		return []Finding{failed(fmt.Sprintf("Pillion refuses a pod of namespace %s (%s): %s", namespace, code, oneLine(err.Error())), in.logs())}, nil
	case err != nil:
		return []Finding{failed(fmt.Sprintf("the API server refuses a pod of namespace %s: %s", namespace, oneLine(err.Error())), in.logs())}, nil
	case proof.Validate(namespace, pod, nil) != nil:
		return []Finding{failed(fmt.Sprintf("a pod of namespace %s came back without the sidecar %s, so API servers do not call Pillion for it: see the check registration, and the label %s/injection of the namespace", namespace, proof.Template, v1alpha1.Group), in.restore())}, nil
	}
	all, err := in.replicas()
	var found []Finding
	for _, r := range all {
		if r.EnforcementProven != nil && !*r.EnforcementProven {
			found = append(found, warning(fmt.Sprintf("replica %s has not yet proven by itself that pods come back injected, so it enforces nothing", r.Name), in.logs()))
		}
	}
	return found, err
}

// createDry creates a pod by dry run, and returns the API server's answer.
func (in *installation) createDry(ctx context.Context, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	made, _, err := in.cluster.DryRun(ctx, namespace, &unstructured.Unstructured{Object: object})
	if err != nil {
		return nil, err
	}
	created := &corev1.Pod{}
	return created, runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, created)
}
