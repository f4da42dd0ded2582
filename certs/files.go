package certs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
)

// FilesOptions are the options of [NewFiles].
type FilesOptions struct {
	Options

	// CertFile is the path of the certificate with its chain, KeyFile that of its
	// private key, both PEM. They are read again every second: whoever replaces
	// them does so by renaming, or swaps a symlink above them, as a kubelet does.
	CertFile, KeyFile string
}

// files is the [Source] whose leaf somebody else puts into files.
type files struct {
	*serving
	options FilesOptions

	// candidate is the last sound pair.
	candidate *leaf
}

// NewFiles prepares the provider. The error names the option that is missing or
// wrong; the files are not read before Run.
func NewFiles(o FilesOptions) (Source, error) {
	client, err := o.open("certificates from files", o.complete)
	if err != nil {
		return nil, err
	}
	return newFiles(o, client, time.Now)
}

func (o *FilesOptions) complete() error {
	return errors.Join(required("CertFile", o.CertFile), required("KeyFile", o.KeyFile), o.Options.complete())
}

func newFiles(o FilesOptions, client kubernetes.Interface, now func() time.Time) (*files, error) {
	shared, err := newServing(o.Options, client, now)
	return &files{serving: shared, options: o}, err
}

// Run reads the files until ctx ends.
func (s *files) Run(ctx context.Context) error {
	permissions := configurationPermissions(s.options.WebhookConfigurations, "certs.provider=files", "list", "watch")
	return s.run(ctx, permissions, s.reconcile)
}

// subject is the object of problems with the pair of files.
func (s *files) subject() string {
	return "files " + s.options.CertFile + " and " + s.options.KeyFile
}

// Ready follows [Source].
func (s *files) Ready() error {
	return s.ready(func() error {
		if err := s.problem(s.subject()); err != nil {
			return err
		}
		return errors.New("not read yet")
	})
}

// reconcile reads the files; a pair that does not fit leaves the last good one
// in use.
func (s *files) reconcile(context.Context) {
	next, err := s.read()
	switch {
	case err != nil && s.candidate != nil:
		err = fmt.Errorf("%w; the last good pair stays in use, which ends at %s", err, timestamp(s.candidate.tls.Leaf.NotAfter))
	case err == nil && (s.candidate == nil || !s.candidate.same(next)):
		s.candidate = next
	}
	s.note(s.subject(), failedFiles, err)
	if s.candidate != nil {
		s.offer(s.candidate)
	}
}

// read reads the pair. When the files are replaced between the two reads they do
// not fit each other, and the next round finds those that do.
func (s *files) read() (*leaf, error) {
	cert, err := os.ReadFile(s.options.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(s.options.KeyFile)
	if err != nil {
		return nil, err
	}
	l, err := parseLeaf(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", s.options.CertFile, s.options.KeyFile, err)
	}
	if expired(l.tls.Leaf, s.now()) {
		return nil, fmt.Errorf("%s: the certificate ended at %s", s.options.CertFile, timestamp(l.tls.Leaf.NotAfter))
	}
	return l, nil
}
