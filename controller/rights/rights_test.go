package rights_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/rights"
)

func forbidden(text string) error {
	return fmt.Errorf("listing: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(text)))
}

func TestAMissingRightIsNamedWithTheCommandsThatGrantIt(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{`User "jane" cannot list resource "pods" in API group "" at the cluster scope`,
			"you lack the right to list pods in all namespaces. An admin can grant it: kubectl create clusterrole pillion-list-pods --verb=list --resource=pods; " +
				"kubectl create clusterrolebinding pillion-list-pods --clusterrole=pillion-list-pods --user=jane: listing: "},
		{`User "system:serviceaccount:ci:bot" cannot create resource "pods/eviction" in API group "" in the namespace "shop"`,
			"you lack the right to create pods/eviction in namespace shop. An admin can grant it: kubectl -n shop create role pillion-create-pods-eviction --verb=create --resource=pods/eviction; " +
				"kubectl -n shop create rolebinding pillion-create-pods-eviction --role=pillion-create-pods-eviction --serviceaccount=ci:bot: "},
		{`User "Jane \"JJ\" Doe" cannot list resource "pods" in API group "" in the namespace "shop"`,
			`you lack the right to list pods in namespace shop. An admin can grant it: kubectl -n shop create role pillion-list-pods --verb=list --resource=pods; ` +
				`kubectl -n shop create rolebinding pillion-list-pods --role=pillion-list-pods --user='Jane "JJ" Doe': `},
		{`User "jane" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop"`, "you lack the right to patch deployments.apps/scale in namespace shop. "},
	} {
		err := rights.Explain(forbidden(c.says))
		var missing *rights.MissingError
		if !errors.As(err, &missing) || !strings.HasPrefix(err.Error(), c.want) || !apierrors.IsForbidden(err) {
			t.Errorf("%s:\n%v\nwant\n%s", c.says, err, c.want)
		}
	}
}

// What webhooks and policies refuse is forbidden, too. No right is missing for it.
func TestARefusalIsNoMissingRight(t *testing.T) {
	const lacks = `User "jane" cannot list resource "pods" in API group "" at the cluster scope`
	for _, err := range []error{nil, errors.New(lacks), forbidden("violates PodSecurity"), forbidden(`admission webhook "w" denied the request`),
		// A webhook that lacks a right itself tells so, and a policy may say anything.
		fmt.Errorf("patching: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Code: 403, Message: `admission webhook "w" denied the request: namespaces "shop" is forbidden: ` + lacks}}),
		forbidden(`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ` + lacks)} {
		if got := rights.Explain(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestARightOnOneObjectIsGrantedForItOnly(t *testing.T) {
	r := rights.Right{Verb: "get", Resource: "secrets", Namespace: "own", Name: "ca"}
	if got, want := r.Grant("")[0], "kubectl -n own create role pillion-get-secrets --verb=get --resource=secrets --resource-name=ca"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r.String() != "get secrets ca in namespace own" || !strings.HasSuffix(r.Grant("")[1], "--user=USER") || r.Attributes().Name != "ca" {
		t.Errorf("%s %v", r, r.Grant(""))
	}
}

// A right that is granted to system:anonymous everybody has.
func TestWhoGivesNoCredentialsIsToldSoAndIsGrantedNothing(t *testing.T) {
	err := rights.Explain(forbidden(`User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope`))
	var missing *rights.MissingError
	if errors.As(err, &missing) || !errors.Is(err, rights.ErrAnonymous) || !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "clusterrolebinding") {
		t.Error(err)
	}
	if again := rights.Explain(err); again.Error() != err.Error() {
		t.Errorf("named twice: %v", again)
	}
}

func TestANameOfAUserIsOneWordOfTheShell(t *testing.T) {
	for user, want := range map[string]string{
		"oidc:jane@example.com": "--user=oidc:jane@example.com", "Jane O'Neil; reboot": `--user='Jane O'\''Neil; reboot'`, "https://id.example.com#42": "--user='https://id.example.com#42'",
		"$(id)": "--user='$(id)'", "system:serviceaccount:ci:bot": "--serviceaccount=ci:bot",
	} {
		if got := rights.Subject(user); got != want {
			t.Errorf("%s: %s, want %s", user, got, want)
		}
	}
}
