package certs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/controller/rights"
)

// Revoke adds a CA to the revoked CAs of a Secret. A CA that is revoked already stays so.
// The replicas do the rest: no caBundle has the CA any more, and another CA signs.
func Revoke(ctx context.Context, client kubernetes.Interface, namespace, secret string, f Fingerprint) error {
	for {
		object, err := client.CoreV1().Secrets(namespace).Get(ctx, secret, metav1.GetOptions{})
		if err != nil {
			return naming(err, namespace, secret)
		}
		changed, err := revoke(object, f)
		if err != nil || changed == nil {
			return err
		}
		_, err = client.CoreV1().Secrets(namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
		if !apierrors.IsConflict(err) {
			return naming(err, namespace, secret)
		}
	}
}

// revoke returns the Secret with the CA among the revoked ones, nil if it is one of them
// already.
func revoke(secret *corev1.Secret, f Fingerprint) (*corev1.Secret, error) {
	list, _ := parseRevocations(secret.Data[secretRevokedKey])
	longer := list.with(revocation{fingerprint: f})
	for _, r := range list {
		if r.fingerprint == f {
			return nil, nil
		}
	}
	if len(longer) == len(list) {
		return nil, fmt.Errorf("secret %s/%s, key %s: the list of revoked CAs is full (%d); stop all replicas and delete from it what has ended", secret.Namespace, secret.Name, secretRevokedKey, len(list))
	}
	changed := secret.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	writeRevocations(changed.Data, longer)
	return changed, nil
}

// naming names the Secret, and a right that is missing, in an error of the API server.
func naming(err error, namespace, secret string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("secret %s/%s: %w", namespace, secret, rights.Named(err))
}
