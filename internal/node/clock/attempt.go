// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

const (
	// redialInterval is the pause before a ptp4l that did not answer is tried again, searchInterval before all domains are tried again.
	redialInterval = 5 * time.Second
	searchInterval = time.Minute
	// dialPatience is how long an observation waits for the first answer. A ptp4l in one of the first domains has answered by then. Trying all
	// domains takes seconds, for which an observation must not wait: it includes chronyd and steps, too.
	dialPatience = 500 * time.Millisecond
)

// attempt tries to reach the ptp4l at a socket, and keeps what is known of that socket.
type attempt struct {
	inode    uint64
	nextTry  time.Time
	fault    Fault
	searched time.Time // the last search in all domains
	address  ptp4l.Address
	dialing  *dialing // nil while none is under way
	ended    func()   // called after each dialing
}

// dialing waits in a goroutine for the answer of a ptp4l.
type dialing struct {
	stop   context.CancelFunc
	done   chan struct{}
	client *ptp4l.Client
	err    error
}

// next continues the attempt, or begins one that is due. It returns neither client nor error if there is no result yet.
func (a *attempt) next(ctx context.Context, path, local string) (*ptp4l.Client, error) {
	begun := a.dialing == nil
	if begun {
		if time.Now().Before(a.nextTry) {
			return nil, nil
		}
		a.begin(ctx, path, local)
	}
	patience := time.Duration(0)
	if begun && a.fault.Reason == "" {
		patience = dialPatience
		a.fault = Fault{ReasonPTPGone, fmt.Sprintf("ptp4l does not answer at %s; look whether it runs", path)}
	}
	select {
	case <-a.dialing.done:
	case <-time.After(patience):
		return nil, nil
	}
	client, err := a.dialing.client, a.dialing.err
	a.dialing.stop()
	a.dialing = nil
	if err == nil {
		a.address, a.nextTry = client.Address(), time.Time{}
	}
	return client, err
}

func (a *attempt) begin(ctx context.Context, path, local string) {
	ctx, stop := context.WithCancel(ctx)
	d := &dialing{stop: stop, done: make(chan struct{})}
	a.dialing = d
	all, address := time.Since(a.searched) >= searchInterval, a.address
	if all {
		a.searched = time.Now()
	}
	go func() {
		defer a.ended()
		defer close(d.done)
		if all {
			d.client, d.err = ptp4l.Dial(ctx, path, local)
		} else {
			d.client, d.err = ptp4l.DialAgain(ctx, path, local, address)
		}
	}()
}

// failed notes why the socket cannot be used, and returns the reason.
func (a *attempt) failed(fault Fault) Fault {
	a.nextTry, a.fault = time.Now().Add(redialInterval), fault
	return fault
}

// end stops the attempt and closes a client that nobody has got.
func (a *attempt) end() {
	if a.dialing == nil {
		return
	}
	a.dialing.stop()
	<-a.dialing.done
	if a.dialing.client != nil {
		a.dialing.client.Close()
	}
	a.dialing = nil
}
