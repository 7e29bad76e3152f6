// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultPath is the default path of ktsnd's socket.
const DefaultPath = "/run/ktsn/control.sock"

const (
	// maxReplyBytes is above what a unix socket of default buffer size can carry in one message.
	maxReplyBytes = 1 << 20
	// listPage keeps a page of a list, whose entries vary in length, well below that.
	listPage = 100
	// departuresPage is the protocol's upper limit; a departure has about 60 bytes.
	departuresPage = 1000
	// tracePage is the protocol's upper limit; a message has about 250 bytes.
	tracePage = 1000
	// replyTimeout bounds each request, whatever its context allows: a live ktsnd answers within milliseconds.
	replyTimeout = 10 * time.Second
)

// Client is a connection to one ktsnd. After any error other than *Error it must be closed: a late reply to an
// abandoned request may still arrive.
type Client struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

// Dial connects to the control socket at path.
func Dial(ctx context.Context, path string) (*Client, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return nil, fmt.Errorf("connect to ktsnd: %w", err)
	}
	return &Client{conn: conn.(*net.UnixConn)}, nil
}

// Close ends the connection; a request that is waiting fails.
func (c *Client) Close() error {
	return c.conn.Close()
}

// WaitClosed waits until ktsnd closes the connection and returns nil, or returns the error of ctx. No other request may be sent on this
// connection meanwhile or afterwards.
func (c *Client) WaitClosed(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.interruptAt(ctx)()
	data, err := c.receive()
	if err == nil {
		return fmt.Errorf("ktsnd sent %.100q without a request", data)
	}
	return ctx.Err()
}

// Status returns the status of ktsnd.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var reply struct{ Status Status }
	if err := c.exchange(ctx, "status", fields{}, "status", &reply); err != nil {
		return nil, err
	}
	return &reply.Status, nil
}

// Instance returns which of the node's ktsnd serves, and which ones stand by.
func (c *Client) Instance(ctx context.Context) (*Instance, error) {
	var reply struct{ Instance Instance }
	if err := c.exchange(ctx, "instance", fields{}, "instance", &reply); err != nil {
		return nil, err
	}
	return &reply.Instance, nil
}

// SocketAdd opens the unix socket on which the applications of the pod called identity reach ktsnd.
func (c *Client) SocketAdd(ctx context.Context, identity, path string) error {
	return c.command(ctx, "socket-add", fields{"identity": identity, "path": path})
}

// SocketDel closes the pod's socket.
func (c *Client) SocketDel(ctx context.Context, identity string) error {
	return c.command(ctx, "socket-del", fields{"identity": identity})
}

// PodNameSet sets the name of the pod, such as "namespace/name"; its socket or an endpoint must exist.
func (c *Client) PodNameSet(ctx context.Context, identity, name string) error {
	return c.command(ctx, "pod-name-set", fields{"identity": identity, "name": name})
}

// EndpointAdd attaches a pod's interface. A ktsnd that does not know one of the fields refuses: without sources the pod could send from any
// address, so the request is not repeated without them.
func (c *Client) EndpointAdd(ctx context.Context, endpoint Endpoint) error {
	if endpoint.Sources != nil {
		complete := *endpoint.Sources
		complete.HardwareAddresses = append([]string{}, complete.HardwareAddresses...)
		complete.Addresses = append([]netip.Prefix{}, complete.Addresses...)
		endpoint.Sources = &complete
	}
	return c.command(ctx, "endpoint-add", endpoint)
}

// EndpointDel detaches a pod's interface.
func (c *Client) EndpointDel(ctx context.Context, identity, interfaceName string) error {
	return c.command(ctx, "endpoint-del", fields{"identity": identity, "interface": interfaceName})
}

// PeerAdd sets the subnets that another node serves, and replaces earlier ones. Fields that only ktsnd sets are not sent. Release 0.1.0 of
// ktsnd refuses Port: without it, it would send to a port at which the peer has no tunnel, so the request is not repeated.
func (c *Client) PeerAdd(ctx context.Context, peer Peer) error {
	peer.MTU, peer.Health = 0, nil
	return c.command(ctx, "peer-add", peer)
}

// PeerDel removes a node.
func (c *Client) PeerDel(ctx context.Context, vni uint32, address netip.Addr) error {
	return c.command(ctx, "peer-del", fields{"vni": vni, "address": address})
}

// Endpoints lists all endpoints. The list is read in pages: one that changes meanwhile may show an
// endpoint twice or not at all.
func (c *Client) Endpoints(ctx context.Context) ([]AttachedEndpoint, error) {
	return readPages[AttachedEndpoint](ctx, c, "endpoints")
}

// Pods lists all pods, with the same reserve as Endpoints.
func (c *Client) Pods(ctx context.Context) ([]Pod, error) {
	return readPages[Pod](ctx, c, "pods")
}

// Flows lists the sockets of all connected processes, with the same reserve as Endpoints.
func (c *Client) Flows(ctx context.Context) ([]Flow, error) {
	return readPages[Flow](ctx, c, "flows")
}

// Peers lists all peers, with the same reserve as Endpoints.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	return readPages[Peer](ctx, c, "peers")
}

// Groups lists the groups of the pods of this node and of each peer, with the same reserve as Endpoints.
func (c *Client) Groups(ctx context.Context) ([]NodeGroups, error) {
	return readPages[NodeGroups](ctx, c, "groups")
}

// readPages reads a whole list, whose name is also that of the field with its entries.
func readPages[Entry any](ctx context.Context, c *Client, list string) ([]Entry, error) {
	var all []Entry
	for {
		var page map[string]json.RawMessage
		if err := c.exchange(ctx, list, fields{"offset": len(all), "limit": listPage}, list, &page); err != nil {
			return nil, err
		}
		var entries []Entry
		var total int
		if err := errors.Join(json.Unmarshal(page[list], &entries), json.Unmarshal(page["total"], &total)); err != nil {
			return nil, fmt.Errorf("decode %s reply: %w", list, err)
		}
		all = append(all, entries...)
		if len(all) >= total || len(entries) == 0 {
			return all, nil
		}
	}
}

// Departures returns the departures numbered above after, oldest first, until it has caught up with the
// daemon, and how many between after and the first returned the daemon no longer had.
func (c *Client) Departures(ctx context.Context, after uint64) (all []Departure, overwritten uint64, err error) {
	for {
		var page struct {
			Overwritten uint64
			Departures  []Departure
		}
		if err := c.exchange(ctx, "departures", fields{"after": after, "limit": departuresPage}, "departures", &page); err != nil {
			return nil, 0, err
		}
		overwritten += page.Overwritten
		all = append(all, page.Departures...)
		if len(page.Departures) < departuresPage {
			return all, overwritten, nil
		}
		after = page.Departures[len(page.Departures)-1].Sequence
	}
}

// TraceStart begins to record the outcome of messages: of all, or of one pod if identity is not empty, or of one flow
// if it is not 0. The trace is this connection's and ends with it, or when it is not read for ten seconds.
func (c *Client) TraceStart(ctx context.Context, identity string, flow uint64) error {
	return c.command(ctx, "trace-start", fields{"identity": identity, "flow": flow})
}

// TraceRead returns messages that ended, numbered above after, oldest first and at most 1000, and how many between
// after and the first returned ktsnd no longer had.
func (c *Client) TraceRead(ctx context.Context, after uint64) (messages []TracedMessage, overwritten uint64, err error) {
	var page struct {
		Overwritten uint64
		Messages    []TracedMessage
	}
	err = c.exchange(ctx, "trace-read", fields{"after": after, "limit": tracePage}, "trace", &page)
	return page.Messages, page.Overwritten, err
}

// TraceStop ends the trace.
func (c *Client) TraceStop(ctx context.Context) error {
	return c.command(ctx, "trace-stop", fields{})
}

// ScheduleSet sets the schedule. Schedule returns the time at which ktsnd changes to it; after an error, ktsnd keeps the schedule that it has.
func (c *Client) ScheduleSet(ctx context.Context, table *GateParameterTable) error {
	return c.command(ctx, "schedule-set", fields{"schedule": NewGateSchedule(table)})
}

// Schedule returns the schedule in force and the last one that was requested.
func (c *Client) Schedule(ctx context.Context) (*Schedule, error) {
	reply := &Schedule{}
	if err := c.exchange(ctx, "schedule-get", fields{}, "schedule", reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// StrategySet changes the rule for the departure of messages.
func (c *Client) StrategySet(ctx context.Context, strategy string) error {
	return c.command(ctx, "strategy-set", fields{"strategy": strategy})
}

// TrafficClassesSet sets the class of each priority, and the PCP of each class on the wire.
func (c *Client) TrafficClassesSet(ctx context.Context, classes TrafficClassMap, points PriorityCodePoints) error {
	return c.command(ctx, "traffic-classes-set", fields{"traffic-class-map": classes, "priority-code-points": points})
}

// command sends a request whose reply is "ok".
func (c *Client) command(ctx context.Context, request string, body any) error {
	return adviseUpgrade(c.exchange(ctx, request, body, "ok", &struct{}{}))
}

// adviseUpgrade adds the remedy to the refusal of a field that ktsnd does not know.
func adviseUpgrade(err error) error {
	if refusal := (*Error)(nil); errors.As(err, &refusal) && refusal.unknownField() {
		return fmt.Errorf("%w; upgrade the node's ktsnd to the release of its client", err)
	}
	return err
}

// exchange sends one request, whose body is an object of its fields, and decodes the fields of its reply.
func (c *Client) exchange(ctx context.Context, request string, body any, wanted string, into any) error {
	message, err := encodeRequest(request, body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	defer c.interruptAt(ctx)()

	if _, err := c.conn.Write(message); err != nil {
		return contextOr(ctx, fmt.Errorf("ask ktsnd: %w", err))
	}
	data, err := c.receive()
	if err != nil {
		return contextOr(ctx, fmt.Errorf("read ktsnd's reply: %w", err))
	}
	return decodeReply(data, wanted, into)
}

// interruptAt makes a wait on the connection fail once ctx has ended, until the function it returns is
// called.
func (c *Client) interruptAt(ctx context.Context) (release func()) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if stop() {
			return
		}
		<-interrupted
		_ = c.conn.SetDeadline(time.Time{})
	}
}

// receive reads one message into memory of its length: few replies are long, and most connections only wait.
func (c *Client) receive() ([]byte, error) {
	length, err := c.peekLength()
	switch {
	case err != nil:
		return nil, err
	case length > maxReplyBytes:
		return nil, fmt.Errorf("longer than %d bytes", maxReplyBytes)
	case length == 0:
		return nil, fmt.Errorf("the daemon closed the connection: %w", io.EOF)
	}
	data := make([]byte, length)
	_, err = io.ReadFull(c.conn, data) // the message is there, and is read as a whole
	return data, err
}

// peekLength waits for a message and returns its length, 0 at the end of the connection.
func (c *Client) peekLength() (length int, err error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Read(func(fd uintptr) (done bool) {
		length, _, failed = unix.Recvfrom(int(fd), nil, unix.MSG_PEEK|unix.MSG_TRUNC|unix.MSG_DONTWAIT)
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	return length, err
}

// contextOr prefers the context's error: cancelling causes a timeout on the socket.
func contextOr(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}
