// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// What Calibur takes (github.com/Uniswap/calibur, interfaces ICalibur, BatchedCallLib, SignedBatchedCallLib), as far as it is used here.
interface ICalibur {
    struct Call {
        address to;
        uint256 value;
        bytes data;
    }

    struct BatchedCall {
        Call[] calls;
        bool revertOnFailure;
    }

    struct SignedBatchedCall {
        BatchedCall batchedCall;
        uint256 nonce;
        bytes32 keyHash;
        address executor;
        uint256 deadline;
    }

    function execute(SignedBatchedCall calldata signedBatchedCall, bytes calldata wrappedSignature) external payable;
}

/// Carries out operations of accounts that delegated to Calibur, which is audited; this contract is not. Ids, events and who may send are
/// those of `Dispatcher`, whose threat model and invariants are in docs/reference/gas-contracts.md. It shares no source with that one, whose address
/// is made of its bytes.
///
/// A batch that is reverted leaves Calibur's nonce unused, so it is this contract that uses up the id: it is the one executor that
/// accounts sign. What they sign besides is their own calls, a deadline, and a nonce of Calibur's that is made of the id and the gas
/// limit, of which Calibur knows nothing: with another id or limit, the signature is of nobody.
contract CaliburDispatcher {
    /// Bytes of an operation before its calls: account 20, sequence 12, gas limit 4, deadline 5, r 32, vs 32, length of calls 3.
    uint256 private constant HEADER = 108;
    /// Of why one failed so many bytes are told: of what a target reverted with, in an error of Calibur's, the first 288.
    uint256 private constant MAX_REASON = 356;
    /// Gas for the call itself, to two accounts that were not touched before, and for the event after it.
    uint256 private constant RESERVE = 15_000;
    /// The account's own key.
    bytes32 private constant ROOT_KEY = 0;
    /// Calibur counts nonces for each of 2^192 keys; the 64 bits below are the count, and ours begins and ends with the first.
    uint256 private constant NONCE_KEY = ~uint256(type(uint64).max);

    /// Where Calibur 1.0.0 is on every network that has it.
    address public constant delegate = 0x000000009B1D0aF20D8C6d0A44e162d11F9b8f00;
    /// The hash of the code of an account that delegated there: 0xef0100 and the address above (EIP-7702).
    bytes32 public constant delegation = keccak256(abi.encodePacked(hex"ef0100", delegate));

    /// Who may send operations of a space.
    mapping(address space => mapping(address sponsor => bool)) public isSponsor;
    /// One bit for each id: 256 operations, of whatever accounts, share a slot.
    mapping(uint256 idShifted => uint256 bits) public used;

    event SponsorSet(address indexed space, address indexed sponsor, bool allowed);
    /// All calls of the operation were done.
    event Done(uint256 indexed id, address indexed account);
    /// None of them was, and none ever will be. `reason` is an error of Calibur or of this contract; empty when gas ran out.
    event Failed(uint256 indexed id, address indexed account, bytes reason);
    /// Nothing was done now: the id was used before, and the event of that time says for what.
    event Skipped(uint256 indexed id, address indexed account);
    /// It was not done, and never will be.
    event Cancelled(uint256 indexed id);

    error NotSponsor();
    error NotDelegated();
    error NotEnoughGas();
    error Malformed();

    modifier onlySponsor(address space) {
        if (!isSponsor[space][msg.sender]) revert NotSponsor();
        _;
    }

    /// For the sender's own space. A sponsor can use up ids and nothing else: what is done, accounts sign.
    function setSponsor(address sponsor, bool allowed) external {
        isSponsor[msg.sender][sponsor] = allowed;
        emit SponsorSet(msg.sender, sponsor, allowed);
    }

    /// @param space the first 20 bytes of the ids; an operation has the other 12
    /// @param operations one after the other, `HEADER` bytes and the calls, packed as `Dispatcher` has them
    /// @return done how many were done; of all of them the events say what became of them
    function dispatch(address space, bytes calldata operations) external onlySponsor(space) returns (uint256 done) {
        uint256 base = uint256(uint160(space)) << 96;
        uint256 place;
        uint256 end;
        assembly ("memory-safe") {
            place := operations.offset
            end := add(place, operations.length)
        }
        while (place < end) {
            address account;
            uint256 id;
            uint256 size;
            assembly ("memory-safe") {
                let head := calldataload(place)
                account := shr(96, head)
                id := or(base, shr(160, shl(160, head)))
                size := shr(232, calldataload(add(place, 105)))
            }
            // Places in calldata and counts of them: none comes near to an overflow.
            unchecked {
                uint256 next = place + HEADER + size;
                // Cut off, or longer than it says: who packed it made a mistake, and nothing is used up.
                if (next > end) revert Malformed();
                if (!_use(id)) emit Skipped(id, account);
                else if (_run(id, account, place, size)) done++;
                place = next;
            }
        }
    }

    /// Uses up ids of operations that are not to be done any more. @param sequences the last 12 bytes of the ids
    function cancel(address space, uint96[] calldata sequences) external onlySponsor(space) {
        for (uint256 i = 0; i < sequences.length; i++) {
            uint256 id = uint256(uint160(space)) << 96 | sequences[i];
            if (_use(id)) emit Cancelled(id);
            else emit Skipped(id, address(0));
        }
    }

    /// @return isNew false where it was used before
    function _use(uint256 id) private returns (bool isNew) {
        uint256 bits = used[id >> 8];
        uint256 bit = 1 << (id & 0xff);
        isNew = bits & bit == 0;
        if (isNew) used[id >> 8] = bits | bit;
    }

    /// @param place where the operation begins in the calldata
    /// @param size of its calls, bytes
    function _run(uint256 id, address account, uint256 place, uint256 size) private returns (bool succeeded) {
        // Anything else there would succeed without having done what was signed, if only because there is nothing.
        if (account.codehash != delegation) {
            emit Failed(id, account, abi.encodePacked(NotDelegated.selector));
            return false;
        }
        uint256 gasLimit;
        assembly ("memory-safe") {
            gasLimit := shr(224, calldataload(add(place, 32)))
        }
        (uint256 input, uint256 length) = _encode(id, gasLimit, place, size);
        if (length == 0) {
            emit Failed(id, account, abi.encodePacked(Malformed.selector));
            return false;
        }
        // The rule of 63/64 would hand on less in silence (EIP-150), and who sends it could have an operation fail. Now
        // nothing is used up.
        unchecked {
            if (gasleft() < RESERVE + gasLimit * 64 / 63) revert NotEnoughGas();
        }
        assembly ("memory-safe") {
            succeeded := call(gasLimit, account, 0, input, length, 0, 0)
        }
        if (succeeded) emit Done(id, account);
        else emit Failed(id, account, _reason());
    }

    /// What the last call returned, so much of it as anybody has to pay for.
    function _reason() private pure returns (bytes memory reason) {
        uint256 size;
        assembly ("memory-safe") {
            size := returndatasize()
        }
        reason = new bytes(size > MAX_REASON ? MAX_REASON : size);
        assembly ("memory-safe") {
            returndatacopy(add(reason, 32), 0, mload(reason))
        }
    }

    /// Behind all memory that is in use, whose end is put back: the next operation has the same room.
    function _encode(uint256 id, uint256 gasLimit, uint256 place, uint256 size)
        private
        view
        returns (uint256 input, uint256 length)
    {
        uint256 free;
        bytes calldata packed;
        assembly ("memory-safe") {
            free := mload(0x40)
            packed.offset := add(place, HEADER)
            packed.length := size
        }
        (bool isRead, ICalibur.Call[] memory calls) = _read(packed);
        if (isRead) {
            bytes memory encoded = _execute(uint256(keccak256(abi.encode(id, gasLimit))) & NONCE_KEY, place, calls);
            length = encoded.length;
            assembly ("memory-safe") {
                input := add(encoded, 32)
            }
        }
        assembly ("memory-safe") {
            mstore(0x40, free)
        }
    }

    /// @param place where the operation begins in the calldata, of which deadline and signature are read
    function _execute(uint256 nonce, uint256 place, ICalibur.Call[] memory calls) private view returns (bytes memory) {
        bytes32 r;
        bytes32 vs;
        uint256 deadline;
        assembly ("memory-safe") {
            deadline := shr(216, calldataload(add(place, 36)))
            r := calldataload(add(place, 41))
            vs := calldataload(add(place, 73))
        }
        ICalibur.SignedBatchedCall memory signed = ICalibur.SignedBatchedCall({
            batchedCall: ICalibur.BatchedCall({calls: calls, revertOnFailure: true}),
            nonce: nonce,
            keyHash: ROOT_KEY,
            executor: address(this),
            deadline: deadline
        });
        return abi.encodeCall(ICalibur.execute, (signed, _wrap(r, vs)));
    }

    /// Calls as they are packed. A list that does not end where its last call does, or without one, is not read.
    function _read(bytes calldata packed) private pure returns (bool isRead, ICalibur.Call[] memory calls) {
        if (packed.length == 0) return (false, calls);
        calls = new ICalibur.Call[](uint8(packed[0]));
        uint256 next = 1;
        for (uint256 i = 0; i < calls.length; i++) {
            if (packed.length < next + 21) return (false, calls);
            ICalibur.Call memory call = calls[i];
            call.to = address(bytes20(packed[next:]));
            uint256 width = uint8(packed[next + 20]);
            next += 21;
            if (width > 32 || packed.length < next + width + 3) return (false, calls);
            // Shifted by 256 for a value of no bytes, nothing is left.
            call.value = uint256(bytes32(packed[next:next + width])) >> (256 - 8 * width);
            next += width;
            uint256 dataSize = uint24(bytes3(packed[next:next + 3]));
            next += 3;
            if (packed.length < next + dataSize) return (false, calls);
            call.data = packed[next:next + dataSize];
            next += dataSize;
        }
        isRead = calls.length > 0 && next == packed.length;
    }

    /// The signature of 65 bytes, and nothing for hooks, which the own key has not.
    function _wrap(bytes32 r, bytes32 vs) private pure returns (bytes memory) {
        bytes32 s = vs & bytes32(uint256(type(int256).max));
        return abi.encode(abi.encodePacked(r, s, uint8(27 + (uint256(vs) >> 255))), "");
    }
}
