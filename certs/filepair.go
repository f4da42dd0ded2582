package certs

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// FilesOptions are the options of [NewFiles].
type FilesOptions struct {
	Options

	// CertFile is the path of the certificate with its chain, KeyFile the path of its
	// private key; both are PEM. They are read every second. Replace them by renaming,
	// or by swapping a symlink above them as a kubelet does.
	CertFile, KeyFile string
}

// permissions returns the permissions that the provider needs.
func (o *FilesOptions) permissions() []permission {
	return configurationPermissions(o.WebhookConfigurations, "certs.provider=files", "list", "watch")
}

// files is the provider whose leaf somebody else puts into two files.
type files struct {
	parts
	options FilesOptions

	// candidate is the last sound pair.
	candidate *leaf
}

// NewFiles returns the files provider's source. The files are not read before Run.
func NewFiles(o FilesOptions) *Source {
	s := newSource(o.Options, o.permissions())
	s.provider = &files{parts: s.parts, options: o}
	return s
}

// subject is the object of problems with the two files.
func (f *files) subject() string {
	return "files " + f.options.CertFile + " and " + f.options.KeyFile
}

// newest implements provider. If the files do not hold a sound pair, the last good pair
// stays in use.
func (f *files) newest(context.Context) *leaf {
	next, err := f.read()
	switch {
	case err != nil && f.candidate != nil:
		err = fmt.Errorf("%w; the last good pair stays in use, which ends at %s", err, timestamp(f.candidate.tls.Leaf.NotAfter))
	case err == nil && (f.candidate == nil || !f.candidate.equal(next)):
		f.candidate = next
	}
	f.problems.record(f.subject(), failedFiles, err)
	return f.candidate
}

// missing implements provider.
func (f *files) missing() error {
	if err := f.problems.get(f.subject()); err != nil {
		return err
	}
	return errors.New("not read yet")
}

// read reads the pair. If the files are replaced between the two reads, the pair does
// not match, and the next round reads the new pair.
func (f *files) read() (*leaf, error) {
	cert, err := os.ReadFile(f.options.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(f.options.KeyFile)
	if err != nil {
		return nil, err
	}
	l, err := parseLeaf(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.options.CertFile, f.options.KeyFile, err)
	}
	if expired(l.tls.Leaf, f.options.Now()) {
		return nil, fmt.Errorf("%s: the certificate ended at %s", f.options.CertFile, timestamp(l.tls.Leaf.NotAfter))
	}
	return l, nil
}
