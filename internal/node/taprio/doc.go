// SPDX-License-Identifier: Apache-2.0

// Package taprio writes a schedule as the commands by which a kernel executes it: taprio with its traffic classes and gates,
// etf below a class, and a VLAN device whose tags have the classes' priority code points. For hosts and guests without ktsnd.
// Pure, but for Apply.
package taprio
