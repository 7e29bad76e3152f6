// SPDX-License-Identifier: Apache-2.0

package ptp4l

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	ptp "github.com/facebook/time/ptp/protocol"
	"golang.org/x/sys/unix"
)

// Client is a connection to one ptp4l, for one goroutine.
type Client struct {
	connection *net.UnixConn
	local      string // our socket's name, to be removed
	from       ptp.PortIdentity
	to         Address
	sequence   uint16
	subscribed time.Time // until when the subscription lasts
	slow       slow

	answers  chan *ptp.Management
	notified chan struct{}
	reading  sync.WaitGroup
	limit    limit
	refused  atomic.Pointer[RefusedError]
	// Dropped counts messages that were not decoded because too many came; Garbage those that could not be.
	dropped, garbage atomic.Uint64
}

// Dial connects to the ptp4l whose management socket is at path, by a socket of ours in folder local, and finds out how it wants to be
// addressed. It refuses a socket that is not root's.
func Dial(ctx context.Context, path, local string) (*Client, error) {
	return dial(ctx, path, local, func(c *Client) error { return c.find(ctx, first, rest) })
}

// DialAgain is Dial for a socket where all addresses were tried before, in vain or not: it tries the one that was right then, and the most
// usual.
func DialAgain(ctx context.Context, path, local string, before Address) (*Client, error) {
	return dial(ctx, path, local, func(c *Client) error { return c.find(ctx, append([]Address{before}, first...), nil) })
}

// Address by which this ptp4l answers.
func (c *Client) Address() Address { return c.to }

func dial(ctx context.Context, path, local string, find func(*Client) error) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	removeOld(local)
	connection, name, err := connect(path, local)
	if err != nil {
		return nil, err
	}
	c := &Client{connection: connection, local: name, answers: make(chan *ptp.Management, 64), notified: make(chan struct{}, 1)}
	c.limit = limit{most: mostPerSecond, left: mostPerSecond}
	var identity [10]byte
	if _, err := rand.Read(identity[:]); err != nil {
		c.Close()
		return nil, fmt.Errorf("choose an identity: %w", err)
	}
	// ptp4l tells subscribers apart by their identity, so a process number would be ambiguous: others' containers have the same ones.
	c.from = ptp.PortIdentity{ClockIdentity: ptp.ClockIdentity(binary.BigEndian.Uint64(identity[:])), PortNumber: binary.BigEndian.Uint16(identity[8:])}
	c.reading.Go(c.read)
	if err := find(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() {
	c.connection.Close()
	c.reading.Wait()
	_ = os.Remove(c.local)
}

// Changed has an element when ptp4l said, without being asked, that a port's state changed.
func (c *Client) Changed() <-chan struct{} { return c.notified }

// mostPerSecond bounds how many messages are decoded. A ptp4l with 32 ports sends 40 a second.
const mostPerSecond = 250

// read takes what ptp4l sends until the connection is closed. It never waits for who asks: ptp4l's socket blocks when ours is full.
func (c *Client) read() {
	// Room for the credentials alone: the kernel closes descriptors that a message brings.
	data, oob := make([]byte, mostOfMessage), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, oobN, _, _, err := c.connection.ReadMsgUnix(data, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as ECONNRESET, when ptp4l ended: the next request tells
			time.Sleep(10 * time.Millisecond)
			continue
		case !c.limit.allows(time.Now()):
			c.dropped.Add(1)
			continue
		}
		if uid, err := sender(oob[:oobN]); err != nil || !trusted(uid) {
			c.refused.Store(&RefusedError{fmt.Sprintf("a process of user %d answers at ptp4l's socket and is not trusted. "+
				"Start ptp4l as root", uid)})
			continue
		}
		message, err := decode(data[:n], c.from)
		if err != nil {
			c.garbage.Add(1)
		} else if message != nil {
			c.deliver(message)
		}
	}
}

func (c *Client) deliver(message *ptp.Management) {
	if message.TLV.MgmtID() == idPortDataSet { // nobody asks for it
		select {
		case c.notified <- struct{}{}:
		default:
		}
		return
	}
	select {
	case c.answers <- message:
	default: // more than anybody asked for
		c.dropped.Add(1)
	}
}

// limit is a bucket that fills by most messages a second.
type limit struct {
	most, left float64
	last       time.Time
}

func (l *limit) allows(now time.Time) bool {
	if !l.last.IsZero() {
		l.left = min(l.most, l.left+l.most*now.Sub(l.last).Seconds())
	}
	l.last = now
	if l.left < 1 {
		return false
	}
	l.left--
	return true
}

// Dropped says how many messages were not looked at because too many came, and how many could not be decoded.
func (c *Client) Dropped() (tooMany, garbage uint64) { return c.dropped.Load(), c.garbage.Load() }
