// SPDX-License-Identifier: Apache-2.0

package relay

import "runtime"

// starter starts all relays from one thread: with PR_SET_PDEATHSIG the kernel kills a process when the thread that started it
// ends, and Go ends threads at any time.
type starter struct {
	orders chan func()
}

func newStarter() *starter {
	s := &starter{orders: make(chan func())}
	go s.run()
	return s
}

// run does not unlock its thread, so that the thread ends with it.
func (s *starter) run() {
	runtime.LockOSThread()
	for order := range s.orders {
		order()
	}
}

// do calls f on the thread.
func (s *starter) do(f func()) {
	done := make(chan struct{})
	s.orders <- func() {
		defer close(done)
		f()
	}
	<-done
}

// end ends the thread and thereby all processes that it started.
func (s *starter) end() { close(s.orders) }
