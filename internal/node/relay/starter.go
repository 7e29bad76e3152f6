// SPDX-License-Identifier: Apache-2.0

package relay

import "runtime"

// starter has one thread start all relays: the kernel kills a process whose parent has ended when the thread ends that
// started it (PR_SET_PDEATHSIG), and Go's threads come and go.
type starter struct {
	orders chan func()
}

func newStarter() *starter {
	s := &starter{orders: make(chan func())}
	go s.run()
	return s
}

// run ends its thread, which it does not unlock.
func (s *starter) run() {
	runtime.LockOSThread()
	for order := range s.orders {
		order()
	}
}

// do runs f on the thread.
func (s *starter) do(f func()) {
	done := make(chan struct{})
	s.orders <- func() {
		defer close(done)
		f()
	}
	<-done
}

// end ends the thread, and with it what it started and is still there.
func (s *starter) end() { close(s.orders) }
