package certs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/runtest"
)

const (
	testNamespace = "pillion-system"
	testSecret    = "pillion-ca"
	testService   = "pillion"
	testWebhook   = "pillion"
)

var (
	secrets        = corev1.SchemeGroupVersion.WithResource("secrets")
	configurations = admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	validations    = admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
)

// cluster is client-go's fake API server with two additions: resource versions, by which
// late writes fail, and permissions.
type cluster struct {
	*fake.Clientset
	t testing.TB

	mu sync.Mutex
	// denied are the missing permissions, as "verb resource".
	denied map[string]bool
	// late is how many of the next patches meet a newer version.
	late int
	// patches are the applied patches.
	patches []string
}

func newCluster(t testing.TB, objects ...runtime.Object) *cluster {
	c := &cluster{Clientset: fake.NewClientset(objects...), t: t, denied: map[string]bool{}}
	c.PrependReactor("create", "selfsubjectaccessreviews", c.review)
	c.PrependReactor("create", "secrets", c.createSecret)
	c.PrependReactor("update", "secrets", c.updateSecret)
	c.PrependReactor("patch", configurations.Resource, c.patch)
	c.PrependReactor("patch", validations.Resource, c.patch)
	c.PrependWatchReactor("*", func(action k8stesting.Action) (bool, watch.Interface, error) {
		w, err := c.watch(action)
		return true, w, err
	})
	return c
}

// watch begins a watch. As that of an API server it brings what happened since the list before it,
// which a fake one does not: it brings everything that there is.
func (c *cluster) watch(action k8stesting.Action) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, err := c.Tracker().Watch(action.GetResource(), action.GetNamespace())
	if err != nil {
		return nil, err
	}
	kind := map[schema.GroupVersionResource]string{secrets: "Secret", configurations: "MutatingWebhookConfiguration", validations: "ValidatingWebhookConfiguration"}[action.GetResource()]
	list, err := c.Tracker().List(action.GetResource(), action.GetResource().GroupVersion().WithKind(kind), action.GetNamespace())
	if err != nil {
		return nil, err
	}
	return w, meta.EachListItem(list, func(object runtime.Object) error {
		w.(*watch.RaceFreeFakeWatcher).Modify(object)
		return nil
	})
}

func (c *cluster) deny(permission string, denied bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied[permission] = denied
}

func (c *cluster) forbidden(verb string, resource schema.GroupVersionResource, name string) error {
	if c.denied[verb+" "+resource.Resource] {
		return apierrors.NewForbidden(resource.GroupResource(), name, fmt.Errorf("not allowed to %s", verb))
	}
	return nil
}

func (c *cluster) review(action k8stesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	review := action.(k8stesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
	asked := review.Spec.ResourceAttributes
	review.Status.Allowed = !c.denied[asked.Verb+" "+asked.Resource]
	return true, review, nil
}

func (c *cluster) createSecret(action k8stesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	secret := action.(k8stesting.CreateAction).GetObject().(*corev1.Secret).DeepCopy()
	if err := c.forbidden("create", secrets, secret.Name); err != nil {
		return true, nil, err
	}
	secret.ResourceVersion = "1"
	return true, secret, c.Tracker().Create(secrets, secret, secret.Namespace)
}

func (c *cluster) updateSecret(action k8stesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	secret := action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret).DeepCopy()
	if err := c.forbidden("update", secrets, secret.Name); err != nil {
		return true, nil, err
	}
	stored, err := c.Tracker().Get(secrets, secret.Namespace, secret.Name)
	if err != nil {
		return true, nil, err
	}
	if stored.(*corev1.Secret).ResourceVersion != secret.ResourceVersion {
		return true, nil, apierrors.NewConflict(secrets.GroupResource(), secret.Name, fmt.Errorf("the object has changed"))
	}
	secret.ResourceVersion = following(secret.ResourceVersion)
	return true, secret, c.Tracker().Update(secrets, secret, secret.Namespace)
}

// patch applies a JSON patch as the API server does: a failed test is a 422.
func (c *cluster) patch(action k8stesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := action.(k8stesting.PatchAction)
	resource := a.GetResource()
	if err := c.forbidden("patch", resource, a.GetName()); err != nil {
		return true, nil, err
	}
	stored, err := c.Tracker().Get(resource, "", a.GetName())
	if err != nil {
		return true, nil, err
	}
	if c.late > 0 {
		c.late--
		stored = c.store(resource, stored.DeepCopyObject())
	}
	patched := stored.DeepCopyObject()
	if err := apply(stored, a.GetPatch(), patched); err != nil {
		return true, nil, apierrors.NewGenericServerResponse(422, "patch", resource.GroupResource(), a.GetName(), err.Error(), 0, false)
	}
	c.patches = append(c.patches, string(a.GetPatch()))
	return true, c.store(resource, patched), nil
}

func apply(stored runtime.Object, text []byte, patched any) error {
	before, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return err
	}
	return json.Unmarshal(after, patched)
}

// store writes a configuration as a new version. c.mu must be held.
func (c *cluster) store(resource schema.GroupVersionResource, configuration runtime.Object) runtime.Object {
	m := configuration.(metav1.Object)
	m.SetResourceVersion(following(m.GetResourceVersion()))
	if err := c.Tracker().Update(resource, configuration, ""); err != nil {
		c.t.Error(err)
	}
	return configuration
}

func following(version string) string {
	n, _ := strconv.Atoi(version)
	return strconv.Itoa(n + 1)
}

// edit changes the configuration in the name of somebody else.
func (c *cluster) edit(change func(*admissionv1.MutatingWebhookConfiguration)) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, err := c.Tracker().Get(configurations, "", testWebhook)
	if err != nil {
		c.t.Fatal(err)
	}
	configuration := stored.(*admissionv1.MutatingWebhookConfiguration).DeepCopy()
	change(configuration)
	c.store(configurations, configuration)
}

// emptied takes the caBundle out of every entry.
func emptied(m *admissionv1.MutatingWebhookConfiguration) {
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig.CABundle = nil
	}
}

func (c *cluster) configuration() *admissionv1.MutatingWebhookConfiguration {
	c.t.Helper()
	stored, err := c.Tracker().Get(configurations, "", testWebhook)
	if err != nil {
		c.t.Fatal(err)
	}
	return stored.(*admissionv1.MutatingWebhookConfiguration)
}

// secretReads counts the requests for one Secret, besides lists and watches.
func (c *cluster) secretReads() int {
	n := 0
	for _, a := range c.Actions() {
		if a.Matches("get", secrets.Resource) {
			n++
		}
	}
	return n
}

// written counts the applied patches.
func (c *cluster) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.patches)
}

// secret returns the stored Secret, or nil.
func (c *cluster) secret() *corev1.Secret {
	c.t.Helper()
	stored, err := c.Tracker().Get(secrets, testNamespace, testSecret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return stored.(*corev1.Secret)
}

// editSecret changes the Secret in the name of somebody else.
func (c *cluster) editSecret(change func(data map[string][]byte)) {
	c.t.Helper()
	for {
		secret := c.secret().DeepCopy()
		change(secret.Data)
		_, err := c.CoreV1().Secrets(testNamespace).Update(context.Background(), secret, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			c.t.Fatal(err)
		}
		return
	}
}

func (c *cluster) deleteSecret() {
	c.t.Helper()
	if err := c.CoreV1().Secrets(testNamespace).Delete(context.Background(), testSecret, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// authorities returns the authorities of the stored Secret.
func (c *cluster) authorities() (authorities, error) {
	c.t.Helper()
	secret := c.secret()
	if secret == nil {
		return authorities{}, errors.New("there is no Secret")
	}
	return readAuthorities(secret.Data)
}

func (c *cluster) mustAuthorities() authorities {
	c.t.Helper()
	stored, err := c.authorities()
	if err != nil {
		c.t.Fatal(err)
	}
	return stored
}

// staged waits until the Secret has a staged CA, and returns it.
func (c *cluster) staged() *ca {
	c.t.Helper()
	var next *ca
	runtest.Eventually(c.t, func() error {
		stored, err := c.authorities()
		if next = stored.next; err == nil && next == nil {
			err = errors.New("no CA is staged")
		}
		return err
	})
	return next
}

// newConfiguration has two entries, and fields that must stay as they are.
func newConfiguration() *admissionv1.MutatingWebhookConfiguration {
	entry := func(name string) admissionv1.MutatingWebhook {
		path := "/mutate"
		return admissionv1.MutatingWebhook{
			Name: name,
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: testNamespace, Name: testService, Path: &path},
			},
			AdmissionReviewVersions: []string{"v1"},
		}
	}
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: testWebhook, ResourceVersion: "1", Labels: map[string]string{"team": "platform"}},
		Webhooks:   []admissionv1.MutatingWebhook{entry("requested.pillion.dev"), entry("enforced.pillion.dev")},
	}
}

// testOptions are the options of a replica.
func (c *cluster) testOptions() Options {
	return Options{
		Client:    c,
		Namespace: testNamespace, Service: testService, Settle: 5 * time.Minute, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		WebhookConfigurations: []WebhookConfiguration{{Mutating, testWebhook}},
	}
}

// run starts a replica of the self-signed provider, and ends the replica with the test.
func (c *cluster) run(change func(*SelfSignedOptions)) *Source {
	c.t.Helper()
	s, _ := c.start(change)
	return s
}

// start is run for a replica that the test may end before by calling stop.
func (c *cluster) start(change func(*SelfSignedOptions)) (s *Source, stop func()) {
	c.t.Helper()
	o := SelfSignedOptions{Options: c.testOptions(), SecretName: testSecret, CADuration: 365 * 24 * time.Hour, LeafDuration: 7 * 24 * time.Hour}
	if change != nil {
		change(&o)
	}
	s = NewSelfSigned(o)
	return s, runtest.Start(c.t, s.Run)
}

// made counts the CAs that replicas made.
func made(replicas []*Source) (n int64) {
	for _, s := range replicas {
		n += s.creations.Load()
	}
	return n
}
