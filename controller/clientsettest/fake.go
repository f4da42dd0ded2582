// Package clientsettest makes Pillion's clients of client-go's clientset, for tests with a
// fake one.
package clientsettest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/controller/clientset"
)

// Of returns the clients of a clientset.
func Of(all kubernetes.Interface) clientset.Interface { return of{clientset.Of(all), all} }

// of has the requests anew that the fake clientset cannot answer.
type of struct {
	*clientset.Clientset
	all kubernetes.Interface
}

// PodList implements [clientset.Interface]. The fake clientset knows no pages.
func (o of) PodList(ctx context.Context, namespace string, opts metav1.ListOptions) (io.ReadCloser, error) {
	list, err := o.all.CoreV1().Pods(namespace).List(ctx, opts)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(list)
	return io.NopCloser(bytes.NewReader(text)), err
}

// NamespaceList implements [clientset.Interface]. The fake clientset knows no pages.
func (o of) NamespaceList(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
	list, err := o.all.CoreV1().Namespaces().List(ctx, opts)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(list)
	return io.NopCloser(bytes.NewReader(text)), err
}

// PodProxy implements [clientset.Interface].
func (o of) PodProxy(_ context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	return nil, fmt.Errorf("a fake cluster has no pod %s/%s to read %d%s from", namespace, pod, port, path)
}
