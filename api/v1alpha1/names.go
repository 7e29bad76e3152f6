// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// NetworkAnnotation of a pod names the networks that it is on, between commas. It counts when the pod is made.
	NetworkAnnotation = "kubernetsn.io/network"
	// ContainersAnnotation of a pod names the containers whose timed messages KuberneTSN takes, between commas. Without
	// it these are all but the init containers that end before the others begin.
	ContainersAnnotation = "kubernetsn.io/containers"
	// UnseenAnnotation of a pod says what becomes of datagrams with a transmit time that libktsn.so does not see: "drop", as
	// without it, or "pass", by which they leave at once, early. It counts when the pod is made.
	UnseenAnnotation = "kubernetsn.io/unseen"
	// ReceiveAnnotation of a pod: "ring" has datagrams of other nodes for its sockets come into memory that libktsn.so reads, on
	// networks whose spec.receive.rings is Allowed. It counts when the pod is made.
	ReceiveAnnotation = "kubernetsn.io/receive"
	// DeviceAnnotation of a pod says that a virtual machine in it has the pod's interfaces, and how it is connected: "tap", "vhost-user" or "vfio".
	// Pods of KubeVirt have "tap" without it, those of Kata what fits their runtime, "veth" where it takes the interface itself. It counts
	// when the pod is made.
	DeviceAnnotation = "kubernetsn.io/device"
	// DeviceQueuesAnnotation of a pod is how many pairs of queues the machine's interface has, 1 to 8; 1 without it.
	DeviceQueuesAnnotation = "kubernetsn.io/device-queues"
	// DeviceClassAnnotation of a pod says where the class of a machine's frame comes from: "record", as without it, "pcp" or "queue".
	DeviceClassAnnotation = "kubernetsn.io/device-class"
	// DeviceOwnerAnnotation of a pod is the number of the user whose process the machine is; 107 in pods of KubeVirt, and root elsewhere.
	DeviceOwnerAnnotation = "kubernetsn.io/device-owner"
	// PodLabel is given to pods with the annotation kubernetsn.io/network, or with labels of links, when they are made. By it they are found.
	// Its value is true.
	PodLabel = "kubernetsn.io/on-network"
	// NodeLabel is given to nodes on which there are such pods. ktsnd and its agent run there. Its value is true.
	NodeLabel = "kubernetsn.io/active"
	// LinkRoutesAnnotation of a pod has the ranges, between commas, in which it takes routes (spec.routes) of TSNServices of other namespaces. Without it the
	// pod takes none of them.
	LinkRoutesAnnotation = "kubernetsn.io/link-routes"
	// TunnelAddressAnnotation of a node: its tunnels end at this IPv4 address, and not at its InternalIP.
	TunnelAddressAnnotation = "kubernetsn.io/tunnel-address"
	// WorkloadLabel of an object and its pods names the workload to which they belong, in a cluster of a hub.
	WorkloadLabel = "federation.kubernetsn.io/workload"
	// ClientLabelPrefix and the name of a TSNService, or SERVICE.NAMESPACE, are the label of a pod that wants a link. Its value is the name of the
	// interface.
	ClientLabelPrefix = "client.kubernetsn.io/"
	// EndpointLabelPrefix and the name of a TSNService are the label of a pod to which links may lead. Its value is what the names of
	// the interfaces begin with; a number follows.
	EndpointLabelPrefix = "endpoint.kubernetsn.io/"
	// NetworkLabel of a NetworkAttachmentDefinition or of TSNPeers names the TSNNetwork that it was made for.
	NetworkLabel = "kubernetsn.io/tsnnetwork"
)

// Other names.
const (
	// Finalizer is that of a TSNNetwork, which it keeps as long as there are pods on it.
	Finalizer = "kubernetsn.io/in-use"
	// HubHeartbeat is the ConfigMap in the operator's namespace that a hub renews in each of its clusters: Karmada does not bring Leases.
	HubHeartbeat = "kubernetsn-hub"
	// HubObservedAt is the key of the time, in RFC 3339, at which the hub renewed it.
	HubObservedAt = "observedAt"
	// CSIDriver is the driver of the volume that gives a pod the folder with libktsn.so and the pod's own socket.
	CSIDriver = "csi.kubernetsn.io"
)

// Values of UnseenAnnotation.
const (
	// UnseenDrop : they are dropped, and counted.
	UnseenDrop = "drop"
	// UnseenPass : they leave at once, early.
	UnseenPass = "pass"
)

// ReceiveRing is the value of ReceiveAnnotation.
const ReceiveRing = "ring"

// Values of DeviceAnnotation.
const (
	// DeviceTap : by a tap in the pod's network namespace.
	DeviceTap = "tap"
	// DeviceVhostUser : by a socket of vhost-user in the pod's volume.
	DeviceVhostUser = "vhost-user"
	// DeviceVFIO : by a network card of the node, of those that the network has (spec.cards).
	DeviceVFIO = "vfio"
)

// Values of a TSNNetwork's spec.receive.path.
const (
	// ReceiveBridge : the kernel's tunnel device and bridge.
	ReceiveBridge = "Bridge"
	// ReceiveRedirect : from the uplink to the pod's interface, past both.
	ReceiveRedirect = "Redirect"
)

// Values of a TSNNetwork's spec.receive.rings.
const (
	// RingsRefused : the kernel serves all sockets.
	RingsRefused = "Refused"
	// RingsAllowed : pods that ask have receive rings.
	RingsAllowed = "Allowed"
)

// Values of a TSNNetwork's spec.capture.
const (
	// CaptureNone : no frames.
	CaptureNone = "None"
	// CaptureTimed : frames with a transmit time.
	CaptureTimed = "Timed"
	// CaptureAll : all frames.
	CaptureAll = "All"
)

// Values of a TSNNetwork's spec.clock.onLoss.
const (
	// OnLossContinue : messages go on leaving at their times by the node's clock, and are counted.
	OnLossContinue = "Continue"
	// OnLossHold : messages with a transmit time wait, until the clock is good again or their horizon is over.
	OnLossHold = "Hold"
	// OnLossRefuse : those that wait still leave; further calls are refused with ENETDOWN.
	OnLossRefuse = "Refuse"
)

// ClockLabelPrefix and the name of a network are the label of a node whose clock is not good enough for that network. New pods of the
// network are kept from there. Its value is ClockLost.
const ClockLabelPrefix = "clock.kubernetsn.io/"

// ClockLost is the value of labels with ClockLabelPrefix.
const ClockLost = "lost"

// LabelValue is that of PodLabel and NodeLabel.
const LabelValue = "true"

// Types of conditions of a TSNNetwork, and of its nodes.
const (
	// ConditionReady of a network says that pods can be attached on every node that needs it; of a node, that its agent
	// has made all that the network asks for.
	ConditionReady = "Ready"
	// ConditionDegraded says that something which was asked for does not hold, though pods may be attached.
	ConditionDegraded = "Degraded"
	// ConditionScheduleAccepted says that nodes are asked to execute the network's schedule.
	ConditionScheduleAccepted = "ScheduleAccepted"
	// ConditionScheduleOperational of a node says that its ktsnd executes the schedule.
	ConditionScheduleOperational = "ScheduleOperational"
	// ConditionCaptureOperational of a node says that the frames which the network's capture asks for go through its ktsnd. A node
	// without captured pods has none.
	ConditionCaptureOperational = "CaptureOperational"
	// ConditionClockSynchronized of a node says that its clock is good enough for the network's spec.clock; of a network, that those of
	// all its nodes are. Without spec.clock there is none.
	ConditionClockSynchronized = "ClockSynchronized"
	// ConditionHubSeen of a network with spec.ipv4.part says that the hub, which gave the part, has been heard of lately. What holds in the
	// cluster does not depend on it: only nodes that join other clusters are not learnt while it is false.
	ConditionHubSeen = "HubSeen"
)

// Types of conditions of a TSNLink.
const (
	// ConditionClientPlugged says that the client has its interface.
	ConditionClientPlugged = "ClientPlugged"
	// ConditionEndpointPlugged says that the endpoint has its interface.
	ConditionEndpointPlugged = "EndpointPlugged"
	// ConditionUp says that the ends reach each other with packets of the link's MTU.
	ConditionUp = "Up"
	// ConditionAdmitted says whether the operator lets agents plug a link that it did not make.
	ConditionAdmitted = "Admitted"
)

// Names of links.
const (
	// LinkMakerLabel of a TSNLink says who made it, and who may remove it: MakerOperator or MakerFederator.
	LinkMakerLabel = "kubernetsn.io/link-maker"
	// MakerOperator : ktsn-operator, for two pods of its cluster.
	MakerOperator = "operator"
	// MakerFederator : ktsn-federator, for pods of two clusters.
	MakerFederator = "federator"
	// ServiceLabel of what was made for a TSNService names it.
	ServiceLabel = "kubernetsn.io/tsnservice"
	// LinksAttachment is the NetworkAttachmentDefinition, in the operator's namespace, of pods with links.
	LinksAttachment = "kubernetsn-links"
	// LinkNetwork is the name that all links have together where networks have theirs: on nodes, and in what clusters sign. No TSNNetwork has it.
	LinkNetwork = "kubernetsn-link"
	// LinkDomain ends the long names of pods at the ends of links. ICANN reserves .internal for private use.
	LinkDomain = "tsn.internal"
)

// Values of a TSNService's spec.routes.behind.
const (
	// BehindEndpoint : the addresses are behind the endpoint.
	BehindEndpoint = "Endpoint"
	// BehindClient : they are behind the client.
	BehindClient = "Client"
)

// Values of a TSNService's spec.prefer.
const (
	// PreferSameNode : an endpoint of the client's node, else of its cluster, else any.
	PreferSameNode = "SameNode"
	// PreferSameCluster : an endpoint of the client's cluster, else any.
	PreferSameCluster = "SameCluster"
	// PreferAny : the endpoint with the fewest links.
	PreferAny = "Any"
)

// Values of spec.encryption.
const (
	// EncryptionNone : frames go from node to node in clear.
	EncryptionNone = "None"
	// EncryptionPreferred : they are encrypted where the nodes can: on a network, while all of its nodes can.
	EncryptionPreferred = "Preferred"
	// EncryptionRequired : they are encrypted, or do not go.
	EncryptionRequired = "Required"
)

// Reasons of Events of nodes.
const (
	// ReasonTSNNodeLeftOut : the node has no part of a network's ranges, or no address of its own for tunnels; pods there cannot be
	// on it.
	ReasonTSNNodeLeftOut = "TSNNodeLeftOut"
	// ReasonClockSynchronized : the clock of the node is good enough again. Its other states have the reasons of conditions below.
	ReasonClockSynchronized = "ClockSynchronized"
	// ReasonClockStepped : somebody set the clock of the node.
	ReasonClockStepped = "ClockStepped"
)

// Reasons of conditions, and of Events of TSNNetworks and pods.
const (
	// ReasonAsAsked : all is as it was asked for.
	ReasonAsAsked = "AsAsked"
	// ReasonScheduleInvalid : the schedule breaks a rule, which the sentence names. What was in force stays.
	ReasonScheduleInvalid = "ScheduleInvalid"
	// ReasonScheduleOfAnother : an older network has a schedule or traffic classes, and nodes have them once.
	ReasonScheduleOfAnother = "ScheduleOfAnother"
	// ReasonRangeUsedUp : there are more nodes with pods than parts of the range. Enlarge the range.
	ReasonRangeUsedUp = "RangeUsedUp"
	// ReasonUplinkMissing : the network insists on another uplink than the node's ktsnd has.
	ReasonUplinkMissing = "UplinkMissing"
	// ReasonNodeNotReady : something of the node's agent is not well, which the sentence names.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNodeWaited : a node has not said yet what holds there.
	ReasonNodeWaited = "WaitingForNodes"
	// ReasonNodeSilent : a node has had no agent that is ready for a while, so that nobody knows what holds there.
	ReasonNodeSilent = "NodeSilent"
	// ReasonNodeLeftOut : a node has no address of its own for tunnels, so other nodes do not reach its pods.
	ReasonNodeLeftOut = "NodeLeftOut"
	// ReasonMultusMissing : the cluster has no NetworkAttachmentDefinitions.
	ReasonMultusMissing = "MultusMissing"
	// ReasonInUse : the network was deleted, and pods are on it.
	ReasonInUse = "InUse"
	// ReasonOverlaps : an older network has the VNI or a part of the range.
	ReasonOverlaps = "Overlaps"
	// ReasonSpanOfHub : the network has spec.span, which only a hub reads.
	ReasonSpanOfHub = "SpanOfHub"
	// ReasonMTUTooLarge : spec.mtu is larger than what the uplinks of some nodes leave.
	ReasonMTUTooLarge = "MTUTooLarge"
	// ReasonHubRenewed : the hub renews its heartbeat.
	ReasonHubRenewed = "HubRenewed"
	// ReasonHubSilent : the hub has not renewed its heartbeat for a while.
	ReasonHubSilent = "HubSilent"
	// ReasonHubNeverSeen : the hub has not given the cluster its heartbeat yet.
	ReasonHubNeverSeen = "HubNeverSeen"
	// ReasonSelectorInvalid : the network's namespaceSelector cannot be read, as the sentence says.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonNamespaceNotSelected : pods name the network, and its namespaceSelector does not select their namespace. They do not count.
	ReasonNamespaceNotSelected = "NamespaceNotSelected"
	// ReasonRelayAway : a captured interface has no relay, so that its frames wait and are then dropped. The sentence says why.
	ReasonRelayAway = "RelayAway"
	// ReasonKtsndTooOld : the node's ktsnd is of a release that takes no captured frames, or that knows nothing of networks' clocks.
	ReasonKtsndTooOld = "KtsndTooOld"
	// ReasonKernelPath : frames without a transmit time are to be captured, and leave by the kernel, or are dropped if the schedule
	// closes their gate at times, because ktsnd does not take them.
	ReasonKernelPath = "KernelPath"
	// ReasonClockHoldover : nobody keeps the node's clock any more; it is believed as long as its error stays within bounds.
	ReasonClockHoldover = "ClockHoldover"
	// ReasonClockUnsynchronized : the error of the node's clock may be larger than the network allows.
	ReasonClockUnsynchronized = "ClockUnsynchronized"
	// ReasonClockUnknown : nobody is known to keep the node's clock, or has said yet how well.
	ReasonClockUnknown = "ClockUnknown"
	// ReasonTwoClockMasters : two programs of the node set one clock.
	ReasonTwoClockMasters = "TwoClockMasters"
	// ReasonClockAwaited : a schedule waits for the clocks of the nodes that the sentence names.
	ReasonClockAwaited = "ClockAwaited"
	// ReasonClocksDiffer : nodes whose clocks are good by themselves follow different clocks, or count TAI differently, as the sentence
	// says, so that nobody knows how far apart they are.
	ReasonClocksDiffer = "ClocksDiffer"
	// ReasonServiceMissing : a pod's label names a TSNService that does not exist.
	ReasonServiceMissing = "ServiceMissing"
	// ReasonServiceForbidden : a TSNService does not take the pod as what its label says, as the sentence explains.
	ReasonServiceForbidden = "ServiceForbidden"
	// ReasonLabelInvalid : a label of links has a value that is no name of an interface.
	ReasonLabelInvalid = "LabelInvalid"
	// ReasonNoEndpoint : no pod of the cluster that is ready offers a service.
	ReasonNoEndpoint = "NoEndpoint"
	// ReasonNoElement : an element of a chain has no pod that is ready.
	ReasonNoElement = "NoElement"
	// ReasonLimitReached : all endpoints of a service have as many links as spec.limits allows.
	ReasonLimitReached = "LimitReached"
	// ReasonChainWaited : the links behind the first one of a chain are not up yet.
	ReasonChainWaited = "WaitingForChain"
	// ReasonChainLoop : a chain would lead back to itself, or services wait for each other.
	ReasonChainLoop = "ChainLoop"
	// ReasonNodeUnfit : links cannot end on the node, as the sentence explains.
	ReasonNodeUnfit = "NodeUnfit"
	// ReasonLinked : a client has got a link.
	ReasonLinked = "Linked"
	// ReasonHealed : a client's link has been replaced by one to another pod.
	ReasonHealed = "Healed"
	// ReasonUnlinked : a link has been removed, as the sentence explains.
	ReasonUnlinked = "Unlinked"
	// ReasonForeignAttachment : a NetworkAttachmentDefinition of the network's name is somebody else's.
	ReasonForeignAttachment = "ForeignAttachment"
)
