// SPDX-License-Identifier: Apache-2.0

// Package taprio translates a schedule into the commands with which a kernel executes it: taprio with its traffic classes and gates,
// etf below a class, and a VLAN device whose tags have the classes' priority code points. It is for hosts and guests without ktsnd.
// Only Apply changes anything.
package taprio
