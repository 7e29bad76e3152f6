// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// lab is a node with a clock that the test moves.
type lab struct {
	t            *testing.T
	dir, witness string
	address      netip.Addr
	now          time.Time
	ring         *Keyring
	why          string
	senders      map[Sender]*Outgoing
}

func newLab(t *testing.T, number byte) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), witness: t.TempDir(), address: netip.AddrFrom4([4]byte{192, 0, 2, number}), now: time.Unix(1e9, 0)}
	l.start()
	return l
}

// start starts the node's agent.
func (l *lab) start() {
	l.t.Helper()
	var err error
	l.ring, l.why, err = Open(l.dir, l.witness, DefaultTimes, func() time.Time { return l.now })
	testlab.Must(l.t, err)
	l.senders = map[Sender]*Outgoing{}
	for sender, width := range map[Sender]uint32{Kernel: 1, Ktsnd: 3} {
		if l.senders[sender], err = NewOutgoing(l.ring, sender, width); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *lab) end() End { return End{l.address, l.ring.Current().Public} }

func (l *lab) file() string { return filepath.Join(l.dir, fileName) }

// reserve reserves some generations.
func (l *lab) reserve(sender Sender) {
	l.t.Helper()
	_, err := l.ring.reserve(sender, 0, 7)
	testlab.Must(l.t, err)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	testlab.Must(t, err)
	return text
}

func yes(Public) bool { return true }
func no(Public) bool  { return false }

// TestKeysAreUnique applies random events to a node: restarts, reboots, lost and restored files, rotations.
func TestKeysAreUnique(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 28))
			a, b := newLab(t, 1), newLab(t, 2)
			handed := map[[KeyBytes]byte]string{}
			backup := read(t, a.file())
			for step := range 150 {
				event := random.IntN(12)
				switch event {
				case 0:
					a.start()
				case 1:
					testlab.Must(t, os.Remove(a.file()))
					a.start()
				case 2:
					backup = read(t, a.file())
				case 3:
					testlab.Must(t, os.WriteFile(a.file(), backup, 0o600))
					a.start()
				case 4: // a boot
					testlab.Must(t, os.Remove(filepath.Join(a.witness, witnessName)))
					a.start()
				case 5: // after a disk was restored
					testlab.Must(t, os.WriteFile(a.file(), backup, 0o600))
					testlab.Must(t, os.Remove(filepath.Join(a.witness, witnessName)))
					a.start()
				case 6:
					testlab.Must(t, os.WriteFile(a.file(), backup[:len(backup)/2], 0o600))
					a.start()
				case 7, 8:
					a.now = a.now.Add(time.Duration(random.IntN(40)) * time.Minute)
					_, err := a.ring.Roll(yes, yes, no)
					testlab.Must(t, err)
				case 9:
					b.now = b.now.Add(time.Hour)
					_, err := b.ring.Roll(yes, yes, no)
					testlab.Must(t, err)
				case 10: // ktsnd was replaced
					testlab.Must(t, a.senders[Ktsnd].Renew())
				}
				for sender, from := range a.senders {
					taken := from.Taken(b.end())
					all, err := from.Take(a.address, b.end())
					testlab.Must(t, err)
					if taken != (all == nil) {
						t.Fatalf("step %d: taken %v, and got %d", step, taken, len(all))
					}
					for _, association := range all {
						at := fmt.Sprint("step ", step, " event ", event, " sender ", sender, " generation ", association.Generation)
						if before, twice := handed[association.Key]; twice {
							t.Fatalf("%s: handed out before, at %s", at, before)
						}
						handed[association.Key] = at
						received, err := b.ring.Current().Incoming(a.end(), b.address, sender, association.Generation)
						if err != nil || received != association {
							t.Fatalf("%s: the other end has %v, %v", at, received, err)
						}
						if association.SPI < minSPI {
							t.Fatalf("%s: SPI %d", at, association.SPI)
						}
					}
				}
			}
			if len(handed) < 150 {
				t.Errorf("only %d keys", len(handed))
			}
		})
	}
}

func TestKeysPerDirectionAndSender(t *testing.T) {
	a, b := newLab(t, 1), newLab(t, 2)
	seen := map[[KeyBytes]byte]string{}
	spis := map[uint32]bool{}
	for _, direction := range []struct{ from, to *lab }{{a, b}, {b, a}} {
		for _, sender := range []Sender{Kernel, Ktsnd} {
			for generation := range uint32(3) {
				association, err := direction.to.ring.Current().Incoming(direction.from.end(), direction.to.address, sender, generation)
				testlab.Must(t, err)
				name := fmt.Sprint(direction.from.address, sender, generation)
				if seen[association.Key] != "" {
					t.Errorf("%s and %s have one key", name, seen[association.Key])
				}
				seen[association.Key], spis[association.SPI] = name, true
			}
		}
	}
	if len(spis) != 12 {
		t.Errorf("%d SPIs for 12 associations", len(spis))
	}
}

func TestOpenAfterRestart(t *testing.T) {
	for what, test := range map[string]struct {
		do   func(*lab)
		keep bool
		why  string
	}{
		"unchanged":             {func(*lab) {}, true, ""},
		"missing file":          {func(l *lab) { testlab.Must(t, os.Remove(l.file())) }, false, "does not exist"},
		"reboot":                {func(l *lab) { testlab.Must(t, os.Remove(filepath.Join(l.witness, witnessName))) }, false, "witness.json does not exist"},
		"damaged file":          {func(l *lab) { testlab.Must(t, os.WriteFile(l.file(), []byte("{"), 0o600)) }, false, "is damaged"},
		"file without a key":    {func(l *lab) { l.ring.current = nil; testlab.Must(t, l.ring.save()) }, false, "cannot be read"},
		"killed before witness": {func(l *lab) { l.ring.store.witnessDir = t.TempDir(); l.reserve(Ktsnd) }, true, ""},
		"restored file": {func(l *lab) {
			old := read(t, l.file())
			l.reserve(Kernel)
			testlab.Must(t, os.WriteFile(l.file(), old, 0o600))
		}, false, "is older than what was used"},
		"file of another installation": {func(l *lab) { testlab.Must(t, os.WriteFile(l.file(), read(t, newLab(t, 9).file()), 0o600)) }, false, "is older"},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, 1)
			key, last := l.ring.Current().Public, l.ring.last[Ktsnd]
			test.do(l)
			l.start()
			if kept := l.ring.Current().Public == key; kept != test.keep || !strings.Contains(l.why, test.why) || test.keep && l.ring.last[Ktsnd] <= last {
				t.Errorf("kept its key: %v, because %q", kept, l.why)
			}
		})
	}
}

func TestFileModes(t *testing.T) {
	l := newLab(t, 1)
	for _, path := range []string{l.file(), filepath.Join(l.witness, witnessName)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	testlab.Must(t, Remove(l.dir, l.witness))
	testlab.Must(t, Remove(l.dir, l.witness))
	left, err := os.ReadDir(l.dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRoll(t *testing.T) {
	l := newLab(t, 1)
	first := l.ring.Current().Public
	roll := func(after time.Duration, announced func(Public) bool, want bool) {
		t.Helper()
		l.now = l.now.Add(after)
		changed, err := l.ring.Roll(announced, announced, no)
		if err != nil || changed != want {
			t.Fatalf("changed %v, %v", changed, err)
		}
	}
	roll(59*time.Minute, yes, false)
	roll(time.Minute, no, false) // no other node gets announcements
	roll(0, yes, true)
	if l.ring.Current().Public != first || len(l.ring.Announced()) != 2 {
		t.Fatalf("in use is %v of %d", l.ring.Current().Public, len(l.ring.Announced()))
	}
	second := l.ring.Announced()[1].Public
	roll(9*time.Minute, yes, false)
	roll(time.Minute, func(key Public) bool { return key == first }, false) // others do not know it yet
	roll(time.Hour, yes, true)
	if l.ring.Current().Public != second || len(l.ring.Announced()) != 2 {
		t.Fatalf("in use is %v of %d", l.ring.Current().Public, len(l.ring.Announced()))
	}
	l.start() // in between
	if changed, err := l.ring.Roll(no, yes, func(key Public) bool { return key == first }); changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
	roll(time.Hour, no, false) // others may still send to the previous key
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{9 * time.Minute, false}, {time.Minute, true}} {
		l.now = l.now.Add(step.after)
		if changed, err := l.ring.Roll(no, yes, no); changed != step.want || err != nil {
			t.Errorf("%v later: changed %v, %v", step.after, changed, err)
		}
	}
	if len(l.ring.Announced()) != 1 {
		t.Errorf("%d are accepted", len(l.ring.Announced()))
	}
}

func TestWriteErrors(t *testing.T) {
	l := newLab(t, 1)
	if _, err := l.senders[Ktsnd].Take(l.address, End{netip.MustParseAddr("192.0.2.2"), l.ring.Current().Public}); err != nil {
		t.Fatal(err)
	}
	l.ring.store.dir = filepath.Join(l.file(), "no folder")
	if err := l.senders[Ktsnd].Renew(); err == nil {
		t.Error("generations were handed out without a write")
	}
	l.now = l.now.Add(time.Hour)
	if _, err := l.ring.Roll(yes, yes, no); err == nil || len(l.ring.Announced()) != 1 {
		t.Errorf("%d keys, %v", len(l.ring.Announced()), err)
	}
}

func TestTakeRejectsZeroKey(t *testing.T) {
	l := newLab(t, 1)
	if _, err := l.senders[Kernel].Take(l.address, End{netip.MustParseAddr("192.0.2.2"), Public{}}); err == nil {
		t.Error("a key of zeros was used")
	}
}

func TestWindow(t *testing.T) {
	for sender, tests := range map[Sender]map[int64]string{
		Kernel: {-1: "[]", 0: "[]", 1: "[1 2 3 4]", 7: "[6 7 8 9 10]", 1 << 40: "[]"},
		Ktsnd:  {0: "[]", 1: "[1 2 3 4 5 6]", 7: "[6 7 8 9 10 11 12]", math.MaxUint32 - 4: "[]"},
	} {
		for announced, want := range tests {
			if got := fmt.Sprint(Window(sender, announced)); got != want {
				t.Errorf("around %d of %d: %s, want %s", announced, sender, got, want)
			}
		}
		taken := Window(sender, 7)
		last := taken[len(taken)-1]
		if !Reaches(sender, 7, last) || Reaches(sender, 7, last+1) || Before(sender, last) != 7 {
			t.Error("Reaches does not agree with Window")
		}
	}
}

// The whole life after the announced one is accepted.
func TestWindowCoversNextLifeOfKtsnd(t *testing.T) {
	const announced = 7
	for generation := uint32(announced); generation < announced+2*KtsndLife; generation++ {
		if !Reaches(Ktsnd, announced, generation) {
			t.Errorf("receivers of announcement %d reject %d", announced, generation)
		}
	}
}
