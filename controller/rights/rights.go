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

// Right is a verb on a resource, in one namespace or, if Namespace is empty, in the whole cluster.
// Name limits it to one object; an empty Name means all objects.
type Right struct{ Verb, Group, Resource, Subresource, Namespace, Name string }

// resource formats the resource for kubectl's flag --resource.
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

// scope formats the namespaces of the right.
func (r Right) scope() string {
	if r.Namespace == "" {
		return "in all namespaces"
	}
	return "in namespace " + r.Namespace
}

// String formats the right: "list pods in namespace shop".
func (r Right) String() string {
	text := r.Verb + " " + r.resource()
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Name != "" && r.Namespace == "" {
		return text // an object of the whole cluster
	}
	return text + " " + r.scope()
}

// Attributes returns the right in the form of access reviews.
func (r Right) Attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
}

// Subject returns the flag by which kubectl's create rolebinding names a user. The user has the
// API server's form; for "" the flag has the placeholder USER.
func Subject(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount=" + account
	}
	return "--user=" + Word(cmp.Or(user, "USER"))
}

// plainWord matches texts that need no quotes in a shell.
var plainWord = regexp.MustCompile(`\A[A-Za-z0-9@%+=:,./_-]+\z`)

// Word quotes a text as one word of a shell, because names of users are foreign texts.
func Word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Grant returns the commands with which an admin grants the right. The user has the API server's
// form; for "" the commands have the placeholder USER.
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

// MissingError is the right that a user lacks.
type MissingError struct {
	Right
	// User is the user that lacks it, in the API server's form.
	User string
	// Hint is a sentence about another way; it may be empty.
	Hint string
	// Err is the API server's answer, wrapped by the caller's operation.
	Err error
}

// Error names the right, the commands that grant it, and the operation that failed.
func (e *MissingError) Error() string { return fmt.Sprintf("%s: %v", e.Sentence(), e.Err) }

// Sentence names the right, and the commands that grant it.
func (e *MissingError) Sentence() string {
	return e.Summary() + " " + strings.Join(e.Commands(), "; ")
}

// Summary names the right, and introduces [MissingError.Commands].
func (e *MissingError) Summary() string {
	hint := ""
	if e.Hint != "" {
		hint = e.Hint + " "
	}
	return fmt.Sprintf("you lack the right to %s. %sAn admin can grant it:", e.Right, hint)
}

// Commands returns the commands with which an admin grants the right.
func (e *MissingError) Commands() []string { return e.Grant(e.User) }

// Unwrap returns the API server's answer.
func (e *MissingError) Unwrap() error { return e.Err }

// denial matches the message of an API server about a missing right. The refusal of a webhook or a
// policy does not match, even if it quotes such a message.
var denial = regexp.MustCompile(`^(?:\S+ (?:"[^"]*" )?is )?forbidden: User ("(?:[^"\\]|\\.)*") cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// anonymous is the user of requests without credentials. A right that is granted to it is granted
// to everybody.
const anonymous = "system:anonymous"

// ErrAnonymous means that a right is missing because the request had no credentials.
var ErrAnonymous = errors.New("the API server does not know you (it takes you for " + anonymous + "): the kubeconfig gives it no credentials for this cluster; kubectl config view --minify shows what it has")

// IsMissing reports whether an error means that a right is missing. The refusal of a webhook or a
// policy is Forbidden, too, but not for a missing right.
func IsMissing(err error) bool {
	var missing *MissingError
	return errors.As(Explain(err), &missing)
}

// Explain returns a [*MissingError] for an API server's answer about a missing right, or an
// [ErrAnonymous] if the request had no credentials. It returns all other errors unchanged, also
// errors that it has explained before.
func Explain(err error) error {
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
