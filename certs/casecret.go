package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// caSecret keeps the CAs of the self-signed provider in a Secret that all replicas
// share. Only the loop uses it.
type caSecret struct {
	parts
	options   SelfSignedOptions
	secret    *objectCache[*corev1.Secret]
	creations *atomic.Int64

	// lastGood are the CAs that the Secret held when it was last sound. They stay in force
	// while the Secret is absent or broken.
	lastGood authorities

	// lastWrite is the last write to the Secret, until this replica sees the result.
	lastWrite write
}

// write is a write that replaced one version of the Secret; over is "" for a Secret
// that did not exist.
type write struct {
	over string
	at   time.Time
}

// pending reports whether this replica still sees the version that it replaced: the
// new version is on its way back.
func (w write) pending(version string, now time.Time) bool {
	return !w.at.IsZero() && w.over == version && now.Sub(w.at) < checkInterval
}

// reconcile reads the Secret and takes the next step of the hand-over in it. Call it before
// publishing, so that no replica publishes a bundle without the CA of a leaf in use.
// It does not wait: a write that comes too late is followed by an event, which
// brings the next round.
func (s *caSecret) reconcile(ctx context.Context) error {
	now := s.options.Now()
	var stored authorities
	var broken error
	version := ""
	secret, exists := s.secret.get()
	if exists {
		version = secret.ResourceVersion
		stored, broken = readAuthorities(secret.Data)
	}
	if s.lastWrite.pending(version, now) {
		return nil
	}
	remembered := s.lastGood
	s.remember(stored.completedBy(remembered))
	s.serving.confirmed.forget(now)
	if stored.next != nil {
		s.serving.observe(stored.next, now)
	}
	made := int64(0)
	want, err := stored.step(circumstances{
		now: now, remembered: remembered, inUse: s.serving.inUse(), terms: termsOf(s.options.Settle, s.options.LeafDuration),
		isSettled: func(cert *x509.Certificate) bool { return s.serving.settled(cert, now) },
		makeCA: func() (*ca, error) {
			made++
			return makeCA(s.options.service().dnsNames(), now, s.options.CADuration)
		},
	})
	if err != nil || exists && broken == nil && stored.equal(want) {
		return err
	}
	if exists && broken != nil && (len(secret.Data) > 0 || remembered.current != nil) {
		s.log.Warn("the CA's Secret is damaged; Pillion creates a new CA", "secret", s.secret.key, "damage", broken)
	}
	written, err := s.store(ctx, secret, want)
	if err != nil {
		return errors.Join(broken, err)
	}
	if written {
		s.lastWrite = write{over: version, at: now}
		s.remember(want)
		s.creations.Add(made)
		s.log.Info("wrote the CA's secret", "secret", s.secret.key, "made", made, "staged", want.next != nil, "promoted", stored.current != nil && !stored.current.cert.Equal(want.current.cert))
	}
	return nil
}

// remember puts the authorities into force. If they have no CA that signs, the last good
// ones stay in force: a Secret that cannot be repaired costs no admission.
func (s *caSecret) remember(a authorities) {
	if a.current != nil {
		s.lastGood = a
	}
}

// store writes the authorities into the Secret, or creates the Secret if it is nil. It
// returns false if another write came first.
func (s *caSecret) store(ctx context.Context, secret *corev1.Secret, want authorities) (bool, error) {
	secrets := s.options.Client.CoreV1().Secrets(s.options.Namespace)
	verb := "create"
	var err error
	if secret != nil {
		verb = "update"
		next := secret.DeepCopy()
		if s.options.SecretGiven {
			// Helm deletes objects that a release does not render any more. The chart renders
			// this Secret only if it made it, and a person may have made it again.
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, "helm.sh/resource-policy", "keep")
		}
		if next.Data, err = want.write(secret.Data); err != nil {
			return false, err
		}
		_, err = secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	} else if s.options.SecretGiven {
		return false, fmt.Errorf("the Secret does not exist, and with rbac.createSecrets=false Pillion may not create it; run: kubectl -n %s create secret generic %s", s.options.Namespace, s.options.SecretName)
	} else {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.options.Namespace, Name: s.options.SecretName,
			Labels: map[string]string{"app.kubernetes.io/name": "pillion", "app.kubernetes.io/component": "certificate-authority"},
		}}
		if made.Data, err = want.write(nil); err != nil {
			return false, err
		}
		_, err = secrets.Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if overtaken(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing the secret: %w", s.permissions.explain(err, verb, "secrets", s.options.SecretName))
	}
	return true, nil
}

// bundle implements bundles.
func (s *caSecret) bundle() []byte { return s.lastGood.bundle() }

// newestBundle implements bundles. An absent or broken Secret leaves the last good CAs
// in force. The bundle is nil if the Secret does not remember the CA of the served leaf
// yet: the Secret is so new that this replica is about to see it, and adds that CA
// first.
func (s *caSecret) newestBundle(ctx context.Context) ([]byte, error) {
	secret, err := s.options.Client.CoreV1().Secrets(s.options.Namespace).Get(ctx, s.options.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s.bundle(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", s.secret.key, s.permissions.explain(err, "get", "secrets", s.options.SecretName))
	}
	stored, err := readAuthorities(secret.Data)
	if err != nil {
		return s.bundle(), nil
	}
	stored = stored.completedBy(s.lastGood)
	if used := s.serving.inUse(); used != nil && !stored.trusts(used) {
		return nil, nil
	}
	return stored.bundle(), nil
}
