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
	// minMemory is the smallest memory limit, in bytes.
	minMemory = 96 << 20
	// minCountEvery is the shortest time between two counts: each reads many pods.
	minCountEvery = 5 * time.Second
	// minDuration is the shortest duration of a certificate. Certificates have whole seconds only, and are checked
	// once a second.
	minDuration = 3 * time.Second
	// aName describes the allowed names of most objects.
	aName = "must be a name of lower case letters, digits and dashes"
)

// reportFunc reports that the value of a setting is not allowed.
type reportFunc func(setting string, value any, allowed string)

// requireOneOf reports a value that is not in the list.
func (report reportFunc) requireOneOf(setting, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		report(setting, value, "must be one of "+strings.Join(allowed, ", "))
	}
}

// requireNames reports values that are not DNS labels.
func (report reportFunc) requireNames(setting, allowed string, values ...string) {
	for _, value := range values {
		if len(validation.IsDNS1123Label(value)) > 0 {
			report(setting, value, allowed)
		}
	}
}

// requireObjectName reports a value that is not a valid name of an object.
func (report reportFunc) requireObjectName(setting, value string) {
	if len(validation.IsDNS1123Subdomain(value)) > 0 {
		report(setting, value, "must be a DNS name of lower case letters, digits, dashes and dots")
	}
}

// Validate returns an error that names every wrong setting, or nil.
func (s Settings) Validate() error {
	var problems []error
	report := reportFunc(func(setting string, value any, allowed string) {
		problems = append(problems, fmt.Errorf("%s is %q; %s", setting, fmt.Sprint(value), allowed))
	})
	s.Server.validate(report)
	s.Reviews.validate(report)
	s.Namespaces.validate(report, s.Server.Namespace)
	s.Certificates.validate(report)
	report.requireNames("templates.foreignSidecars", "must be names of containers: lower case letters, digits and dashes", s.Templates.ForeignSidecars...)
	if _, err := s.TemplateValues(); err != nil {
		problems = append(problems, err)
	}
	if every := s.Pods.CountEvery; every != 0 && every < minCountEvery {
		report("pods.countEvery", every, "must be 0s, or at least "+minCountEvery.String()+", such as 5m")
	}
	return errors.Join(problems...)
}

func (s Server) validate(report reportFunc) {
	report.requireNames("server.namespace", aName, s.Namespace)
	report.requireNames("server.service", aName, s.Service)
	report.requireObjectName("server.serviceAccount", s.ServiceAccount)
	for _, l := range []struct{ setting, address string }{{"server.listen", s.Listen}, {"server.adminListen", s.AdminListen}} {
		if _, port, err := net.SplitHostPort(l.address); err != nil || port == "" {
			report(l.setting, l.address, "must be [HOST]:PORT, such as :8443")
		}
	}
	if s.MemoryBytes() < minMemory {
		report("server.memoryLimit", s.MemoryLimit, "must be at least 96Mi, such as 256Mi")
	}
	report.requireOneOf("server.logLevel", s.LogLevel, "debug", "info", "warn", "error")
	report.requireOneOf("server.logFormat", s.LogFormat, "text", "json")
	if s.ShutdownDelay < 0 {
		report("server.shutdownDelay", s.ShutdownDelay, "must be 0s, or a positive duration such as 5s")
	}
	if s.ShutdownTimeout <= 0 {
		report("server.shutdownTimeout", s.ShutdownTimeout, "must be a positive duration such as 20s")
	}
}

func (r Reviews) validate(report reportFunc) {
	if r.Timeout < time.Second || r.Timeout > 30*time.Second {
		report("reviews.timeout", r.Timeout, "must be from 1s to 30s, as in timeoutSeconds")
	}
	report.requireOneOf("reviews.scope", r.Scope, Requested, All)
	if r.ClientCA == "" && len(r.ClientNames) > 0 {
		report("reviews.clientNames", r.ClientNames, "it needs reviews.clientCA, too")
	}
}

func (n Namespaces) validate(report reportFunc, own string) {
	report.requireOneOf("namespaces.enforcement", string(n.Enforcement), labels.Enforcements...)
	if n.UninstallMarker != "" {
		report.requireObjectName("namespaces.uninstallMarker", n.UninstallMarker)
	}
	if n.Proof == "" {
		return
	}
	report.requireNames("namespaces.proof", aName, n.Proof)
	if n.Proof == own || slices.Contains(n.Excluded, n.Proof) {
		report("namespaces.proof", n.Proof, "must be neither Pillion's own namespace nor one of namespaces.excluded, where no pod is injected")
	}
}

func (c Certificates) validate(report reportFunc) {
	report.requireOneOf("certificates.provider", c.Provider, SelfSigned, CertManager, Files)
	report.requireObjectName("certificates.webhookConfiguration", c.WebhookConfiguration)
	if c.LeafDuration < minDuration || c.LeafDuration >= c.CADuration {
		report("certificates.leafDuration", c.LeafDuration, fmt.Sprintf("allowed is from %s to less than certificates.caDuration (%s)", minDuration, c.CADuration))
	}
	if c.Settle < 0 || c.Settle > c.CADuration/4 {
		report("certificates.settle", c.Settle, fmt.Sprintf("allowed is from 0s to a quarter of certificates.caDuration (%s)", c.CADuration))
	}
	if c.Publish && c.Provider != CertManager {
		report("certificates.publish", c.Publish, "allowed with certificates.provider="+CertManager+" only")
	}
	if c.Provider == Files {
		if c.Folder == "" {
			report("certificates.folder", c.Folder, "required with certificates.provider="+Files)
		}
	} else {
		report.requireObjectName("certificates.secret", c.Secret)
	}
}
