package rights

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Right is what an account may do: a verb on a resource, in one namespace or, for "", in the
// whole cluster. Name is the one object that it is limited to, "" for all.
type Right struct{ Verb, Group, Resource, Subresource, Namespace, Name string }

// resource returns the resource as kubectl's flag --resource wants it.
func (r Right) resource() string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}

// where says in which namespaces the right counts.
func (r Right) where() string {
	if r.Namespace == "" {
		return "in all namespaces"
	}
	return "in namespace " + r.Namespace
}

// String says which right it is: "list pods in namespace shop".
func (r Right) String() string {
	text := r.Verb + " " + r.resource()
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Name != "" && r.Namespace == "" {
		return text // an object of the whole cluster
	}
	return text + " " + r.where()
}

// Attributes returns the right as access reviews ask for it.
func (r Right) Attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
}

// Subject returns the flag by which kubectl's create rolebinding names a user, who is named as
// API servers do. For "" it has USER in its place.
func Subject(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount=" + account
	}
	return "--user=" + Word(cmp.Or(user, "USER"))
}

// plainWord are texts that a shell takes as they are.
var plainWord = regexp.MustCompile(`\A[A-Za-z0-9@%+=:,./_-]+\z`)

// Word returns a text as one word of a shell. The names of users come from elsewhere.
func Word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Grant returns the commands with which an admin grants the right. The user is named as API
// servers do; for "" the commands have USER in its place.
func (r Right) Grant(user string) []string {
	to := Subject(user)
	kind, in := "clusterrole", ""
	if r.Namespace != "" {
		kind, in = "role", " -n "+r.Namespace
	}
	name := "pillion-" + r.Verb + "-" + r.Resource
	if r.Subresource != "" {
		name += "-" + r.Subresource
	}
	role := fmt.Sprintf("kubectl%s create %s %s --verb=%s --resource=%s", in, kind, name, r.Verb, r.resource())
	if r.Name != "" {
		role += " --resource-name=" + r.Name
	}
	return []string{role, fmt.Sprintf("kubectl%s create %sbinding %s --%s=%s %s", in, kind, name, kind, name, to)}
}

// MissingError says which right a user lacks.
type MissingError struct {
	Right
	// User is the user that lacks it, as API servers name users.
	User string
	// Hint is a sentence about another way; it may be empty.
	Hint string
	// Err is the API server's answer, and what was being done.
	Err error
}

// Error names the right, the commands that grant it, and what was being done.
func (e *MissingError) Error() string { return fmt.Sprintf("%s: %v", e.Sentence(), e.Err) }

// Sentence names the right, and the commands that grant it.
func (e *MissingError) Sentence() string {
	return e.Says() + " " + strings.Join(e.Commands(), "; ")
}

// Says is a sentence that names the right, and that [MissingError.Commands] go on with.
func (e *MissingError) Says() string {
	hint := ""
	if e.Hint != "" {
		hint = e.Hint + " "
	}
	return fmt.Sprintf("you lack the right to %s. %sAn admin can grant it:", e.Right, hint)
}

// Commands are those with which an admin grants the right.
func (e *MissingError) Commands() []string { return e.Grant(e.User) }

// Unwrap returns the API server's answer.
func (e *MissingError) Unwrap() error { return e.Err }

// denial is how API servers say who lacks which right. What a webhook or a policy refuses
// reads otherwise, also where it quotes such an answer.
var denial = regexp.MustCompile(`^(?:\S+ (?:"[^"]*" )?is )?forbidden: User ("(?:[^"\\]|\\.)*") cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// anonymous is the user that API servers take a person for who gives no credentials. A right
// that is granted to it is granted to everybody.
const anonymous = "system:anonymous"

// ErrAnonymous says that a right is missing because the API server does not know who asks.
var ErrAnonymous = errors.New("the API server does not know you (it takes you for " + anonymous + "): the kubeconfig gives it no credentials for this cluster; kubectl config view --minify shows what it has")

// Lacks reports whether an API server's answer says that a right is missing. What a webhook or a
// policy refuses is forbidden, too, and no right is missing for it.
func Lacks(err error) bool {
	var missing *MissingError
	return errors.As(Named(err), &missing)
}

// Named returns a [*MissingError] for an API server's answer that says that a right is
// missing, and an [ErrAnonymous] for one to somebody without credentials. Other errors stay as
// they are, also those that name the right already.
func Named(err error) error {
	var found []string
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		found = denial.FindStringSubmatch(answer.Status().Message)
	}
	var named *MissingError
	if !apierrors.IsForbidden(err) || found == nil || errors.Is(err, ErrAnonymous) || errors.As(err, &named) {
		return err
	}
	user, unquoted := strconv.Unquote(found[1])
	switch {
	case unquoted != nil:
		return err
	case user == anonymous:
		return fmt.Errorf("%w: %w", ErrAnonymous, err)
	}
	r := Right{Verb: found[2], Group: found[4], Namespace: found[5]}
	r.Resource, r.Subresource, _ = strings.Cut(found[3], "/")
	return &MissingError{Right: r, User: user, Err: err}
}
