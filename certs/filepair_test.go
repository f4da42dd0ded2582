package certs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/internal/errtest"
)

// mount lays out a volume as a kubelet does: tls.crt and tls.key link into ..data, and
// ..data links to the folder of this version.
func mount(t *testing.T, dir, version string, l *leaf) {
	t.Helper()
	folder := filepath.Join(dir, "..version_"+version)
	must := func(err error) {
		t.Helper()
		errtest.ExpectNone(t, err)
	}
	must(os.Mkdir(folder, 0o700))
	data := servingSecret(t, l).Data
	for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		must(os.WriteFile(filepath.Join(folder, name), data[name], 0o600))
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
		}
	}
	must(os.Symlink(filepath.Base(folder), filepath.Join(dir, "..new")))
	must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
}

func (c *cluster) runFiles(dir string) *Source {
	c.t.Helper()
	o := FilesOptions{Options: c.testOptions(), CertFile: filepath.Join(dir, corev1.TLSCertKey), KeyFile: filepath.Join(dir, corev1.TLSPrivateKeyKey)}
	o.Settle = time.Second
	s := NewFiles(o)
	runtest.Start(c.t, s.Run)
	return s
}

func serves(s *Source, l *leaf) func() error {
	return func() error {
		certificate, err := s.GetCertificate(nil)
		if err == nil && !certificate.Leaf.Equal(l.tls.Leaf) {
			err = errors.New("another certificate is served")
		}
		return err
	}
}

func TestFilesAreReadAgainWhenAKubeletSwapsTheLinkAndWhenTheyAreRenamed(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		issuer, dir := yearCA(t), t.TempDir()
		first, second, third := newLeaf(t, issuer, testDNSName, time.Hour), newLeaf(t, issuer, testDNSName, 2*time.Hour), newLeaf(t, issuer, testDNSName, 3*time.Hour)
		mount(t, dir, "1", first)
		c := newCluster(t, newConfiguration())
		c.inject(issuer)
		s := c.runFiles(dir)
		runtest.Eventually(t, s.Ready)
		runtest.Eventually(t, serves(s, first))
		mount(t, dir, "2", second)
		runtest.Eventually(t, serves(s, second))

		data := servingSecret(t, third).Data
		for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
			path := filepath.Join(dir, name)
			errtest.ExpectNone(t, os.WriteFile(path+".new", data[name], 0o600))
			errtest.ExpectNone(t, os.Rename(path+".new", path))
		}
		runtest.Eventually(t, serves(s, third))
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPairIsServedOnlyWhenItsCAIsPublished(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		first, second, dir := yearCA(t), yearCA(t), t.TempDir()
		old, next := newLeaf(t, first, testDNSName, time.Hour), newLeaf(t, second, testDNSName, time.Hour)
		mount(t, dir, "1", old)
		c := newCluster(t, newConfiguration())
		c.inject(first)
		s := c.runFiles(dir)
		runtest.Eventually(t, serves(s, old))
		runtest.Eventually(t, s.Ready)
		mount(t, dir, "2", next)
		keeps(t, s, pemOf(first), 1500*time.Millisecond)
		c.inject(second)
		runtest.Eventually(t, serves(s, next))
	})
}
