// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

// Guest is a running virtual machine.
type Guest struct {
	Plan

	page    *guestclock.Page
	command *exec.Cmd
	line    net.Conn
	ended   chan struct{}
	// console is its console output, valid once ended is closed.
	console string
	// counter bounds its processor's counter.
	counter guestclock.Counter

	mu       sync.Mutex
	asked    int
	replies  map[int]chan shared.Message
	messages []shared.Message
}

// bridges returns the bridges of the guest's network cards, eth0's first.
func (g *Guest) bridges() []Bridge {
	if g.Between {
		return []Bridge{Near, Far}
	}
	return []Bridge{Near}
}

// port returns the name of the guest's port. The port that every guest has may be moved to the other bridge.
func (g *Guest) port(bridge Bridge) string {
	if bridge == Near {
		return g.Name
	}
	return g.Name + "-" + string(bridge)
}

// mac returns a locally administered address.
func (g *Guest) mac(bridge Bridge) string {
	hash := g.hash(bridge)
	return fmt.Sprintf("02:4b:%02x:%02x:%02x:%02x", hash[0], hash[1], hash[2], hash[3])
}

func (g *Guest) hash(bridge Bridge) []byte {
	sum := fnv.New32a()
	sum.Write([]byte(g.port(bridge)))
	return sum.Sum(nil)
}

// Identity returns the guest's PTP clock identity, which ptp4l derives from the network card's address.
func (g *Guest) Identity() string {
	hash := g.hash(Near)
	return fmt.Sprintf("024b%02x.fffe.%02x%02x%02x", hash[0], hash[1], hash[2], hash[3])
}

// listen distributes the guest's messages until the line ends.
func (g *Guest) listen(line net.Conn, there chan<- struct{}) {
	lines := bufio.NewScanner(line)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message shared.Message
		if json.Unmarshal(lines.Bytes(), &message) != nil {
			message = shared.Message{Name: "line", Line: lines.Text()}
		}
		switch {
		case message.Name != "":
			g.mu.Lock()
			g.messages = append(g.messages, message)
			g.mu.Unlock()
		case message.ID == 0:
			close(there)
		default:
			g.mu.Lock()
			waits := g.replies[message.ID]
			delete(g.replies, message.ID)
			g.mu.Unlock()
			waits <- message
		}
	}
}

// Said returns the output of a guest's program so far.
func (g *Guest) Said(name string) []shared.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	var messages []shared.Message
	for _, message := range g.messages {
		if message.Name == name {
			messages = append(messages, message)
		}
	}
	return messages
}

// requestPatience bounds any request.
const requestPatience = time.Minute

// ask sends a request and waits for the reply.
func (g *Guest) ask(ctx context.Context, request shared.Request) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	reply := make(chan shared.Message, 1)
	g.mu.Lock()
	g.asked++
	request.ID = g.asked
	g.replies[request.ID] = reply
	err := json.NewEncoder(g.line).Encode(request)
	g.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", g.Name, err)
	}
	select {
	case message := <-reply:
		if message.Error != "" {
			return message.Output, fmt.Errorf("%s: %s: %s", g.Name, message.Error, strings.TrimSpace(message.Output))
		}
		return message.Output, nil
	case <-g.ended:
		return "", fmt.Errorf("%s ended; its console says:\n%s", g.Name, g.console)
	case <-ctx.Done():
		return "", fmt.Errorf("%s does not answer: %w", g.Name, ctx.Err())
	}
}

// Write writes a file.
func (g *Guest) Write(ctx context.Context, path, content string) error {
	_, err := g.ask(ctx, shared.Request{Write: &shared.File{Path: path, Content: content}})
	return err
}

// Run runs a program to its end and returns its output.
func (g *Guest) Run(ctx context.Context, arguments ...string) (string, error) {
	return g.ask(ctx, shared.Request{Run: &shared.Program{Arguments: arguments}})
}

// Start starts a program; Said returns its output.
func (g *Guest) Start(ctx context.Context, name string, arguments ...string) error {
	_, err := g.ask(ctx, shared.Request{Start: &shared.Program{Name: name, Arguments: arguments}})
	return err
}

// Kill kills a started program.
func (g *Guest) Kill(ctx context.Context, name string) error {
	_, err := g.ask(ctx, shared.Request{Signal: &shared.Signal{Name: name, Number: syscall.SIGKILL}})
	return err
}

// Change changes the clock.
func (g *Guest) Change(ctx context.Context, clock shared.Clock) error {
	_, err := g.ask(ctx, shared.Request{Clock: &clock})
	return err
}

// Exchange exchanges counters a number of times, and narrows the bounds of the guest's. It fails if the counter is not
// the host's plus a constant.
func (g *Guest) Exchange(ctx context.Context, times int) error {
	if _, err := g.ask(ctx, shared.Request{Answer: &times}); err != nil {
		return err
	}
	all, err := g.page.Ask(times, requestPatience)
	if err != nil {
		return fmt.Errorf("exchange counters with %s: %w", g.Name, err)
	}
	for _, exchange := range all {
		g.counter.Narrow(exchange)
	}
	if g.counter.Width() < 0 {
		return errors.New("the counter of " + g.Name + " is not the host's plus a constant")
	}
	return nil
}

// Counter returns the bounds of the guest's counter.
func (g *Guest) Counter() guestclock.Counter { return g.counter }
