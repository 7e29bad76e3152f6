// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

const (
	// redialInterval is how soon a ptp4l that did not answer is tried again; searchInterval how soon in all domains.
	redialInterval = 5 * time.Second
	searchInterval = time.Minute
	// dialPatience is for how long a look waits for the first answer. A ptp4l in one of the first domains has answered by then. Who asks in
	// all others takes seconds, in which a look must go on: it sees chronyd and steps, too.
	dialPatience = 500 * time.Millisecond
)

// attempt is one to reach a ptp4l at a socket, and what is known of that socket.
type attempt struct {
	inode    uint64
	again    time.Time // when it is tried next
	fault    Fault
	searched time.Time // when it was last asked in all domains
	address  ptp4l.Address
	dialing  *dialing // nil: nobody is waiting for an answer
	ended    func()   // called when somebody has waited
}

// dialing waits for a ptp4l's answer in a goroutine of its own.
type dialing struct {
	stop   context.CancelFunc
	done   chan struct{}
	client *ptp4l.Client
	err    error
}

// next goes on with the attempt, beginning it when its time has come. Without client and error it goes on later.
func (a *attempt) next(ctx context.Context, path, local string) (*ptp4l.Client, error) {
	begun := a.dialing == nil
	if begun {
		if time.Now().Before(a.again) {
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
		a.address, a.again = client.Address(), time.Time{}
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

// failed notes why the socket is of no use, and returns it.
func (a *attempt) failed(fault Fault) Fault {
	a.again, a.fault = time.Now().Add(redialInterval), fault
	return fault
}

// end leaves nothing.
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
