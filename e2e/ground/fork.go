package ground

import (
	"runtime"
	"sync"
	"syscall"
)

// A forker runs functions, one at a time, on an operating system thread of its own, which
// lives until end. Programs are started there, for two reasons: the kernel kills a child
// whose parent dies (see dieWithParent) when the *thread* that forked it ends, and Go
// ends threads; and a child is born into the namespaces of that thread.
type forker struct {
	work chan<- func()
	// attributes are those of the programs that are started there.
	attributes func() *syscall.SysProcAttr
}

// newForker starts a thread. If enter fails there, the thread is ended.
func newForker(attributes func() *syscall.SysProcAttr, enter func() error) (*forker, error) {
	work := make(chan func())
	entered := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and is used for nothing else.
		runtime.LockOSThread()
		err := enter()
		entered <- err
		if err != nil {
			return
		}
		for f := range work {
			f()
		}
	}()
	if err := <-entered; err != nil {
		return nil, err
	}
	return &forker{work: work, attributes: attributes}, nil
}

// do runs f on the thread.
func (f *forker) do(work func() error) error {
	done := make(chan error)
	f.work <- func() { done <- work() }
	return <-done
}

// end ends the thread.
func (f *forker) end() { close(f.work) }

// here starts programs in the namespaces of this program, which die with it.
var here = sync.OnceValue(func() *forker {
	f, _ := newForker(dieWithParent, func() error { return nil })
	return f
})

// ownGroup puts a program into a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
