package certs

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func given(o *SelfSignedOptions) { o.SecretGiven = true }

// give makes the empty Secret, as the chart does.
func (c *cluster) give() {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testSecret, ResourceVersion: "1", Labels: map[string]string{"of": "the chart"}}}
	if err := c.Tracker().Create(secrets, secret, testNamespace); err != nil {
		c.t.Fatal(err)
	}
}

func TestAGivenSecretIsFilledWithoutTheRightToCreateOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		c.deny("create secrets", true)
		c.give()
		s := c.run(given)
		readyAndPublished(t, c, s)
		if c.secret().Labels["of"] != "the chart" {
			t.Error("the Secret was replaced, not filled")
		}
		if c.secret().Annotations["helm.sh/resource-policy"] != "keep" {
			t.Error("Helm may delete the Secret")
		}
		if problems := problemsOf(s); problems != "" {
			t.Errorf("there are problems: %v", problems)
		}
	})
}

func TestAGivenSecretThatIsAbsentIsNamedWithTheCommandThatMendsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		c.deny("create secrets", true)
		s := c.run(given)
		const command = "kubectl -n " + testNamespace + " create secret generic " + testSecret
		eventually(t, func() error { return mentions(s.Ready(), "does not exist", command) })
		c.give()
		readyAndPublished(t, c, s)

		// Deleted later, it costs no readiness, and the same CA is still trusted when it is back.
		before := pemOf(c.mustAuthorities().current)
		c.deleteSecret()
		eventually(t, func() error { return mentions(errors.New(problemsOf(s)), command) })
		if err := s.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if err := verifies(s, before, time.Now()); err != nil {
			t.Error(err)
		}
		c.give()
		eventually(t, func() error {
			stored, err := c.authorities()
			if err == nil {
				err = verifies(s, stored.bundle(), time.Now())
			}
			return err
		})
		eventually(t, s.Ready)
	})
}
