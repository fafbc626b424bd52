// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Delegate} from "./Delegate.sol";

/// Carries out operations that accounts signed, many in one transaction, each on its own, paid for by who sends it.
/// Not audited. Threat model and invariants: docs/reference/gas-contracts.md.
///
/// The id of an operation is used up here, in a frame that the operation cannot revert: what failed once can never be done
/// later by someone who kept its bytes. Nobody owns this contract. An id begins with an address, its space, and only who has
/// that address says who may send operations of the space: decision 0062.
contract Dispatcher {
    /// Bytes of an operation before its calls: account 20, sequence 12, gas limit 4, deadline 5, r 32, vs 32, length of calls 3.
    uint256 private constant HEADER = 108;
    /// What `CallFailed` of the delegate needs at most: a selector, three words, 256 bytes.
    uint256 private constant MAX_REASON = 356;
    /// Gas for the call itself, to two accounts that were not touched before, and for the event after it.
    uint256 private constant RESERVE = 15_000;

    /// The code that accounts delegate to.
    Delegate public immutable delegate;
    /// The hash of the code of an account that did: 0xef0100 and the address above (EIP-7702).
    bytes32 public immutable delegation;

    /// Who may send operations of a space.
    mapping(address space => mapping(address sponsor => bool)) public isSponsor;
    /// One bit for each id: 256 operations, of whatever accounts, share a slot.
    mapping(uint256 idShifted => uint256 bits) public used;

    event SponsorSet(address indexed space, address indexed sponsor, bool allowed);
    /// All calls of the operation were done.
    event Done(uint256 indexed id, address indexed account);
    /// None of them was, and none ever will be. `reason` is an error of Delegate or Dispatcher; empty when gas ran out.
    event Failed(uint256 indexed id, address indexed account, bytes reason);
    /// Nothing was done now: the id was used before, and the event of that time says for what.
    event Skipped(uint256 indexed id, address indexed account);
    /// It was not done, and never will be.
    event Cancelled(uint256 indexed id);

    error NotSponsor();
    error NotDelegated();
    error NotEnoughGas();
    error Malformed();

    constructor() {
        delegate = new Delegate();
        delegation = keccak256(abi.encodePacked(hex"ef0100", address(delegate)));
    }

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
    /// @param operations one after the other, `HEADER` bytes and the calls as `Delegate.execute` takes them
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
        bytes4 selector = Delegate.execute.selector;
        uint256 input;
        uint256 length;
        uint256 gasLimit;
        // The same as abi.encodeCall(Delegate.execute, (id, gasLimit, deadline, r, vs, calls)), behind all memory that is in use:
        // the next operation has the same room.
        assembly ("memory-safe") {
            input := mload(0x40)
            gasLimit := shr(224, calldataload(add(place, 32)))
            mstore(input, selector)
            mstore(add(input, 4), id)
            mstore(add(input, 36), gasLimit)
            mstore(add(input, 68), shr(216, calldataload(add(place, 36))))
            calldatacopy(add(input, 100), add(place, 41), 64)
            mstore(add(input, 164), 192)
            mstore(add(input, 196), size)
            calldatacopy(add(input, 228), add(place, HEADER), size)
            // Whole words, as the encoding has it. What is there may be of the operation before; nobody reads it.
            length := add(228, and(add(size, 31), not(31)))
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
}
