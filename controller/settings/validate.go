package settings

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/controller/labels"
)

const (
	// leastMemory is the smallest memory limit, in bytes.
	leastMemory = 96 << 20
	// leastCountEvery is the shortest time between two counts: each reads many pods.
	leastCountEvery = 5 * time.Second
	// shortest is the shortest duration of a certificate. Certificates have whole seconds only, and are checked once
	// a second.
	shortest = 3 * time.Second
	// aName is the form of names of most objects.
	aName = "must be a name of lower case letters, digits and dashes"
)

// complaint says that the value of a setting is not allowed.
type complaint func(setting string, value any, allowed string)

// unlessOneOf complains of a value that is none of those allowed.
func (wrong complaint) unlessOneOf(setting, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		wrong(setting, value, "must be one of "+strings.Join(allowed, ", "))
	}
}

// unlessNames complains of values that are no DNS labels.
func (wrong complaint) unlessNames(setting, allowed string, values ...string) {
	for _, value := range values {
		if len(validation.IsDNS1123Label(value)) > 0 {
			wrong(setting, value, allowed)
		}
	}
}

// unlessObject complains of a value that is no name of an object.
func (wrong complaint) unlessObject(setting, value string) {
	if len(validation.IsDNS1123Subdomain(value)) > 0 {
		wrong(setting, value, "must be a DNS name of lower case letters, digits, dashes and dots")
	}
}

// Validate returns an error that names every wrong setting, or nil.
func (s Settings) Validate() error {
	var problems []error
	wrong := complaint(func(setting string, value any, allowed string) {
		problems = append(problems, fmt.Errorf("%s is %q; %s", setting, fmt.Sprint(value), allowed))
	})
	s.Server.validate(wrong)
	s.Reviews.validate(wrong)
	s.Namespaces.validate(wrong, s.Server.Namespace)
	s.Certificates.validate(wrong)
	wrong.unlessNames("templates.foreignSidecars", "must be names of containers: lower case letters, digits and dashes", s.Templates.ForeignSidecars...)
	if _, err := s.TemplateValues(); err != nil {
		problems = append(problems, err)
	}
	if every := s.Pods.CountEvery; every != 0 && every < leastCountEvery {
		wrong("pods.countEvery", every, "must be 0s, or at least "+leastCountEvery.String()+", such as 5m")
	}
	return errors.Join(problems...)
}

func (s Server) validate(wrong complaint) {
	wrong.unlessNames("server.namespace", aName, s.Namespace)
	wrong.unlessNames("server.service", aName, s.Service)
	wrong.unlessObject("server.serviceAccount", s.ServiceAccount)
	for _, l := range []struct{ setting, address string }{{"server.listen", s.Listen}, {"server.adminListen", s.AdminListen}} {
		if _, port, err := net.SplitHostPort(l.address); err != nil || port == "" {
			wrong(l.setting, l.address, "must be [HOST]:PORT, such as :8443")
		}
	}
	if s.MemoryBytes() < leastMemory {
		wrong("server.memoryLimit", s.MemoryLimit, "must be at least 96Mi, such as 256Mi")
	}
	wrong.unlessOneOf("server.logLevel", s.LogLevel, "debug", "info", "warn", "error")
	wrong.unlessOneOf("server.logFormat", s.LogFormat, "text", "json")
	if s.ShutdownDelay < 0 {
		wrong("server.shutdownDelay", s.ShutdownDelay, "must be 0s, or a positive duration such as 5s")
	}
	if s.ShutdownTimeout <= 0 {
		wrong("server.shutdownTimeout", s.ShutdownTimeout, "must be a positive duration such as 20s")
	}
}

func (r Reviews) validate(wrong complaint) {
	if r.Timeout < time.Second || r.Timeout > 30*time.Second {
		wrong("reviews.timeout", r.Timeout, "must be from 1s to 30s, as in timeoutSeconds")
	}
	wrong.unlessOneOf("reviews.scope", r.Scope, Requested, All)
	if r.ClientCA == "" && len(r.ClientNames) > 0 {
		wrong("reviews.clientNames", r.ClientNames, "it needs reviews.clientCA, too")
	}
}

func (n Namespaces) validate(wrong complaint, own string) {
	wrong.unlessOneOf("namespaces.enforcement", string(n.Enforcement), labels.Enforcements...)
	if n.UninstallMarker != "" {
		wrong.unlessObject("namespaces.uninstallMarker", n.UninstallMarker)
	}
	if n.Proof == "" {
		return
	}
	wrong.unlessNames("namespaces.proof", aName, n.Proof)
	if n.Proof == own || slices.Contains(n.Excluded, n.Proof) {
		wrong("namespaces.proof", n.Proof, "must be neither Pillion's own namespace nor one of namespaces.excluded, where no pod is injected")
	}
}

func (c Certificates) validate(wrong complaint) {
	wrong.unlessOneOf("certificates.provider", c.Provider, SelfSigned, CertManager, Files)
	wrong.unlessObject("certificates.webhookConfiguration", c.WebhookConfiguration)
	if c.LeafDuration < shortest || c.LeafDuration >= c.CADuration {
		wrong("certificates.leafDuration", c.LeafDuration, fmt.Sprintf("allowed is from %s to less than certificates.caDuration (%s)", shortest, c.CADuration))
	}
	if c.Settle < 0 || c.Settle > c.CADuration/4 {
		wrong("certificates.settle", c.Settle, fmt.Sprintf("allowed is from 0s to a quarter of certificates.caDuration (%s)", c.CADuration))
	}
	if c.Publish && c.Provider != CertManager {
		wrong("certificates.publish", c.Publish, "allowed with certificates.provider="+CertManager+" only")
	}
	if c.Provider == Files {
		if c.Folder == "" {
			wrong("certificates.folder", c.Folder, "required with certificates.provider="+Files)
		}
	} else {
		wrong.unlessObject("certificates.secret", c.Secret)
	}
}
