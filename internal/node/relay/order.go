// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
)

// firstDescriptor is the number of the first inherited file after the standard ones.
const firstDescriptor = 3

// order is the command line of a relay with the files that it inherits.
type order struct {
	program   *Program
	arguments []string
	files     []*os.File
	// owned files are closed with the order.
	owned []*os.File
}

// newOrder returns an order with the options of all relays.
func newOrder(packet, folder *os.File, counters *counters, socket string) *order {
	o := &order{}
	o.pass("--packet-fd", packet)
	o.pass("--socket-dir-fd", folder)
	o.pass("--counters-fd", counters.file)
	o.add("--socket-name", filepath.Base(socket))
	return o
}

func (o *order) add(arguments ...string) { o.arguments = append(o.arguments, arguments...) }

// pass adds a file and the option with its number.
func (o *order) pass(option string, file *os.File) { o.add(option, strconv.Itoa(o.give(file))) }

// give adds a file and returns its number in the relay.
func (o *order) give(file *os.File) (number int) {
	o.files = append(o.files, file)
	return firstDescriptor + len(o.files) - 1
}

// own closes a file with the order.
func (o *order) own(file *os.File) { o.owned = append(o.owned, file) }

func (o *order) close() {
	for _, file := range o.owned {
		file.Close()
	}
}

// start starts the relay and calls changed when it has ended.
func (o *order) start(thread *starter, log *slog.Logger, changed func()) (*process, error) {
	return o.program.run(thread, o.arguments, o.files, log, changed)
}
