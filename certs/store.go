package certs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/clientset"
)

// store keeps the CAs of a provider in a Secret that all replicas share, and remembers
// them: an absent or broken Secret leaves the CAs known last in force. Only the loop uses it.
type store struct {
	*source
	secret *followed[*corev1.Secret]
	name   string

	// read reads the Secret's data. The error says why no CA signs.
	read func(data map[string][]byte) (authorities, error)

	// known are the CAs in force.
	known authorities

	// own is the last write of this replica.
	own write
}

// write is a write to the Secret, which counts until this replica sees its result.
type write struct {
	// over is the version that the write replaced, "" if there was no Secret.
	over   string
	result *corev1.Secret
	at     time.Time
}

// newStore returns a store for the Secret with that name.
func newStore(s *source, name string, read func(map[string][]byte) (authorities, error)) *store {
	followed := followSecret(s.options.Client, s.options.Namespace, name, s.changed)
	s.watches = append(s.watches, followed.run)
	return &store{source: s, secret: followed, name: name, read: read}
}

// subject names the Secret as the object of problems.
func (s *store) subject() string { return "secret " + s.secret.key }

// versionOf returns the version of a Secret, "" for nil.
func versionOf(secret *corev1.Secret) string {
	if secret == nil {
		return ""
	}
	return secret.ResourceVersion
}

// look reads the Secret as this replica has seen or written it, and takes its CAs for those in force.
// The Secret is nil if it is absent; broken says why it has no CA that signs.
func (s *store) look(now time.Time) (secret *corev1.Secret, stored authorities, broken error) {
	var misread error
	secret, _ = s.secret.get()
	if s.own.result != nil && versionOf(secret) == s.own.over && now.Sub(s.own.at) < checkInterval {
		secret = s.own.result
	}
	if secret != nil {
		stored, broken = s.read(secret.Data)
		_, misread = parseRevocations(secret.Data[secretRevokedKey])
	}
	s.problems.note(s.subject()+", key "+secretRevokedKey, failedSecret, misread)
	s.remember(stored, now)
	return secret, stored, broken
}

// remember takes the authorities for those in force. If no CA signs there, the known ones
// stay in force without the revoked CAs: a Secret that cannot be repaired costs no admission.
func (s *store) remember(stored authorities, now time.Time) {
	next := stored.completedBy(s.known).permitted(now)
	if next.current == nil {
		known := s.known
		known.revoked = next.revoked
		next = known.permitted(now)
		next.current = cmp.Or(next.current, s.known.current)
	}
	s.known, s.serving.revoked = next, next.revoked
}

// update writes the authorities into the Secret. It returns false if another write came
// first.
func (s *store) update(ctx context.Context, secret *corev1.Secret, want authorities) (bool, error) {
	changed := secret.DeepCopy()
	var err error
	if changed.Data, err = want.write(secret.Data); err != nil {
		return false, err
	}
	result, err := s.options.Client.Secrets(s.options.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	return s.written("update", secret, result, want, err)
}

// written takes the authorities for those in force if a write of them was done, which gave
// the result and the error. It returns false without an error if another write came first.
func (s *store) written(verb string, before, result *corev1.Secret, want authorities, err error) (bool, error) {
	if overtaken(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing the secret: %w", s.permissions.explain(err, verb, "secrets", s.name))
	}
	now := s.options.Now()
	s.own = write{versionOf(before), result, now}
	s.remember(want, now)
	return true, nil
}

// newestBundle asks the API server, and returns the bundle by the newest state of the
// Secret. The bundle is nil if the Secret does not remember the CA of the served leaf yet:
// this replica is about to see the Secret, and adds that CA first.
func (s *store) newestBundle(ctx context.Context) ([]byte, error) {
	secret, err := s.options.Client.Secrets(s.options.Namespace).Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s.known.bundle(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", s.secret.key, s.permissions.explain(err, "get", "secrets", s.name))
	}
	stored, err := s.read(secret.Data)
	if err != nil {
		return s.known.bundle(), nil
	}
	if stored = stored.completedBy(s.known).permitted(s.options.Now()); stored.current == nil {
		return s.known.bundle(), nil
	}
	if used := stored.permitting(s.serving.inUse()); used != nil && !contains(stored.all(), used) {
		return nil, nil
	}
	return stored.bundle(), nil
}

// Revoke adds a CA to the revoked CAs of a Secret. A CA that is revoked already stays so.
// The replicas do the rest: no caBundle has the CA any more, and another CA signs.
func Revoke(ctx context.Context, client clientset.Interface, namespace, secret string, f Fingerprint) error {
	for {
		object, err := client.Secrets(namespace).Get(ctx, secret, metav1.GetOptions{})
		if err != nil {
			return naming(err, "get", namespace, secret)
		}
		list, _ := parseRevocations(object.Data[secretRevokedKey])
		if _, revoked := list[f]; revoked {
			return nil
		}
		if len(list) == maxRevoked {
			return fmt.Errorf("secret %s/%s, key %s: the list of revoked CAs is full (%d); stop all replicas and delete from it what has ended", namespace, secret, secretRevokedKey, maxRevoked)
		}
		list.add(f, time.Time{})
		changed := object.DeepCopy()
		if changed.Data == nil {
			changed.Data = map[string][]byte{}
		}
		changed.Data[secretRevokedKey] = list.encode()
		_, err = client.Secrets(namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
		if !apierrors.IsConflict(err) {
			return naming(err, "update", namespace, secret)
		}
	}
}

// naming adds the missing permission to an error of the API server.
func naming(err error, verb, namespace, secret string) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("missing permission: %s: %w", onSecret(verb, namespace, secret).action(), err)
	}
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", namespace, secret, err)
	}
	return nil
}
