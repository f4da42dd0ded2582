package ground

import (
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WebhookClientName is the common name of the certificate that every kube-apiserver shows to
// the webhooks that it calls through a Service.
const WebhookClientName = "webhooks-client"

// admissionConfiguration has kube-apiserver read what it shows to webhooks.
const admissionConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %[1]q}
- name: ValidatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %[1]q}
`

// WebhookClient implements Ground.
func (g *cluster) WebhookClient() string { return g.path("webhook-client") }

// webhookClient makes a CA for nothing but the certificate that kube-apiserver shows to
// webhooks, as docs/concepts/security.md has it, and writes the files that kube-apiserver reads.
func (g *cluster) webhookClient() error {
	pki, err := newPKI(g.WebhookClient())
	if err != nil {
		return err
	}
	for _, name := range []string{WebhookClientName, "somebody-else"} {
		if err := pki.issue(name, pkix.Name{CommonName: name}, nil); err != nil {
			return err
		}
	}
	config := clientcmdapi.NewConfig()
	config.AuthInfos["*.svc"] = &clientcmdapi.AuthInfo{ClientCertificate: pki.path(WebhookClientName + ".crt"), ClientKey: pki.path(WebhookClientName + ".key")}
	kubeconfig := pki.path("kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return err
	}
	return os.WriteFile(g.admissionConfiguration(), fmt.Appendf(nil, admissionConfiguration, kubeconfig), 0o600)
}

func (g *cluster) admissionConfiguration() string {
	return filepath.Join(g.WebhookClient(), "admission.yaml")
}
