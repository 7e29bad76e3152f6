// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lab is a Prober that finds these, and how often it has asked and told.
type lab struct {
	*Prober
	mu             sync.Mutex // of what follows
	finds          map[netip.Addr]int
	asked, changes int
}

func newLab(t *testing.T, finds map[netip.Addr]int) *lab {
	t.Helper()
	l := &lab{finds: finds}
	l.Prober = &Prober{
		Find: func(_ context.Context, to netip.Addr, largest int) (int, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.asked++
			if bytes := l.finds[to]; bytes > 0 {
				return min(bytes, largest), nil
			}
			return 0, ErrSilent
		},
		Changed: func() { l.changes++ }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	synctest.Wait()
	return l
}

// find has a path carry so much from now on, or be silent with 0.
func (l *lab) find(host netip.Addr, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finds[host] = bytes
}

var a, b = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

func TestPathMTUIsMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, map[netip.Addr]int{a: 1400, b: 1500})
		if least := l.PathMTU([]netip.Addr{a, b}, 1500); least != 1500 {
			t.Errorf("before anything is known it is %d, want what the node can send", least)
		}
		synctest.Wait()
		if least := l.PathMTU([]netip.Addr{a, b}, 1500); least != 1400 || l.asked != 2 || l.changes != 2 {
			t.Errorf("it is %d, asked %d times and told %d times", least, l.asked, l.changes)
		}
		if least := l.PathMTU([]netip.Addr{b}, 1500); least != 1500 {
			t.Errorf("of one path it is %d", least)
		}
	})
}

func TestSilentPathIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, map[netip.Addr]int{})
		l.PathMTU([]netip.Addr{a}, 1500)
		synctest.Wait()
		if least := l.PathMTU([]netip.Addr{a}, 1500); least != 1500 || l.changes != 0 {
			t.Errorf("of a silent path it is %d, told %d times", least, l.changes)
		}
		l.find(a, 1390)
		time.Sleep(retryInterval + time.Second)
		synctest.Wait()
		if least := l.PathMTU([]netip.Addr{a}, 1500); least != 1390 || l.changes != 1 {
			t.Errorf("of a path that answers it is %d, told %d times", least, l.changes)
		}
		l.find(a, 0)
		time.Sleep(validFor + time.Second)
		synctest.Wait()
		if least := l.PathMTU([]netip.Addr{a}, 1500); least != 1390 {
			t.Errorf("of a path that does not answer any more it is %d", least)
		}
	})
}

func TestOtherUplinkIsProbedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, map[netip.Addr]int{a: 9000})
		l.PathMTU([]netip.Addr{a}, 1500)
		synctest.Wait()
		l.PathMTU([]netip.Addr{a}, 9000)
		synctest.Wait()
		if least := l.PathMTU([]netip.Addr{a}, 9000); least != 9000 || l.asked != 2 {
			t.Errorf("it is %d after %d questions", least, l.asked)
		}
	})
}

func TestUnusedPathIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, map[netip.Addr]int{a: 1400})
		l.PathMTU([]netip.Addr{a}, 1500)
		synctest.Wait()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if l.asked > 4 || len(l.paths) != 0 {
			t.Errorf("asked %d times, and %d paths are known", l.asked, len(l.paths))
		}
	})
}
