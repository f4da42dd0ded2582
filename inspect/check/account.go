package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/templates/show"
)

// accountAccepted looks at Pillion's ServiceAccount and at the tokens of the replicas. Access
// reviews do not tell: they are about the account's name, whether or not it exists.
func accountAccepted(f *Facts, s Settings) []Finding {
	created, err := f.Account.Value, f.Account.Err
	account := strings.TrimPrefix(s.Account, "system:serviceaccount:")
	const follows = "API servers accept no request of theirs (401): they still inject pods, but repair no label and no caBundle"
	if isNotFound(err) {
		return []Finding{failed(fmt.Sprintf("Pillion's service account %s is missing. The replicas' tokens are not valid without it: %s. Create it again, and then restart the replicas", account, follows), append(s.restore(), s.restart(f))...)}
	}
	if err != nil {
		return []Finding{unread(err)}
	}
	var older, refused []string
	for _, r := range f.Replicas.Value {
		switch {
		case r.Created.Before(created) && !r.Created.IsZero():
			older = append(older, r.Name)
		case r.Unauthorized:
			refused = append(refused, r.Name)
		}
	}
	var found []Finding
	if len(older) > 0 {
		found = append(found, failed(fmt.Sprintf("Pillion's service account %s was deleted, and created again at %s. The replicas %s still have tokens of the deleted account, and %s", account, created.UTC().Format(time.RFC3339), show.Some(older, mostNamed), follows), s.restart(f)))
	}
	if len(refused) > 0 {
		found = append(found, failed(fmt.Sprintf("the tokens of the replicas %s are not accepted: %s. A token ends when the service account %s is deleted, even if it is created again", show.Some(refused, mostNamed), follows, account), s.restart(f), s.logs()))
	}
	if f.Replicas.Err != nil {
		found = append(found, unread(f.Replicas.Err))
	}
	return found
}

// restart is the command that gives every replica a new token.
func (s Settings) restart(f *Facts) string {
	return fmt.Sprintf("kubectl -n %s rollout restart deployment/%s", s.Namespace, f.Deployment.Value.Name)
}
