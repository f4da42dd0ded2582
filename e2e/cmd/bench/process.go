package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// yardstickName is the Service of the yardstick. API servers call it as they call Pillion.
const yardstickName = "yardstick"

// A process serves the yardstick, as a process of its own like Pillion. It ends when its
// standard input does.
type process struct {
	cmd    *exec.Cmd
	input  io.Closer
	bundle []byte // PEM
}

// startYardstick starts it on the ClusterIP of a Service of its own.
func startYardstick(ctx context.Context, cluster *measure.Cluster, a addition) (*process, error) {
	service, err := cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: yardstickName},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(yardstickName+"."+metav1.NamespaceDefault+".svc", nil, nil)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, yardstickArgument)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, input, certificate}
	err = json.NewEncoder(input).Encode(order{Listen: net.JoinHostPort(service.Spec.ClusterIP, "443"), Certificate: certificate, Key: key, Addition: a})
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("writing its order: %w", err)
	}
	return p, nil
}

// stop returns when the process is gone.
func (p *process) stop() {
	_ = p.input.Close()
	_ = p.cmd.Wait() // it has nothing more to say
}

// register has API servers call the yardstick for the pods of the case's namespace.
func (p *process) register(ctx context.Context, cluster *measure.Cluster, c benchCase) error {
	to := admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: metav1.NamespaceDefault, Name: yardstickName, Path: &c.path},
		CABundle: p.bundle,
	}
	_, err := cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace()},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{measure.PodWebhook(c.name+".example.com", to, c.namespace(), admissionregistrationv1.IfNeededReinvocationPolicy)},
	}, metav1.CreateOptions{})
	return err
}
