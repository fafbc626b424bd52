// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC7739Utils} from "@openzeppelin/contracts/utils/cryptography/draft-ERC7739Utils.sol";

/// The code of an account that has delegated to it (EIP-7702), so that a sponsor can pay for what the account signed.
/// Not audited. Threat model and invariants: docs/reference/gas-contracts.md.
///
/// It has no storage, no initialiser, no owner, no upgrade and no fallback: what an account may do is decided by one thing
/// only, that a signature recovers to the address of the account itself. Nothing that anybody sets can collide or be set first.
contract Delegate {
    /// How much of what a failed call returned is passed on, bytes.
    uint256 private constant MAX_REASON = 256;
    /// Half of the order of secp256k1: of the two s that a signature can have only the lower one counts (EIP-2).
    uint256 private constant MAX_S = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;
    string private constant NAME = "Chatelaine";
    string private constant VERSION = "1";
    bytes32 private constant NAME_HASH = keccak256("Chatelaine");
    bytes32 private constant VERSION_HASH = keccak256("1");
    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant CALL_TYPE = keccak256("Call(address to,uint256 value,bytes data)");
    bytes32 private constant OPERATION_TYPE = keccak256(
        "Operation(address dispatcher,uint256 id,Call[] calls,uint256 gasLimit,uint256 deadline)Call(address to,uint256 value,bytes data)"
    );
    /// ERC-7739: the question whether it is known here, and the answer.
    bytes32 private constant NESTED_QUESTION = 0x7739773977397739773977397739773977397739773977397739773977397739;
    bytes4 private constant NESTED_ANSWER = 0x77390001;

    /// The one caller of `execute`. It keeps which operations are used; this code does not.
    address public immutable dispatcher;

    error NotDispatcher();
    error Expired();
    error WrongSignature();
    error Malformed();
    /// A call of the operation failed, and with it all of them. `reason` is what it returned, up to 256 bytes.
    error CallFailed(uint256 index, bytes reason);

    /// Made by the dispatcher's own constructor.
    constructor() {
        dispatcher = msg.sender;
    }

    receive() external payable {}

    /// Does what the account signed, all of it or nothing.
    /// @param deadline the last second in which it may be done
    /// @param r of the signature
    /// @param vs of the signature, as EIP-2098 has it: s, and the parity in the highest bit
    /// @param calls one byte for how many, and of each: to (20 bytes), length of value (1), value, length of data (3), data
    function execute(uint256 id, uint256 gasLimit, uint256 deadline, bytes32 r, bytes32 vs, bytes calldata calls) external {
        if (msg.sender != dispatcher) revert NotDispatcher();
        if (block.timestamp > deadline) revert Expired();
        (bytes32 hash, uint256 rows, uint256 count) = _read(calls);
        bytes32 operation = _operationHash(id, gasLimit, deadline, hash);
        bytes32 s = vs & bytes32(uint256(type(int256).max));
        unchecked {
            uint256 v = 27 + (uint256(vs) >> 255);
            if (!_isOwn(_digestOf(_domain(), operation), v, r, s)) revert WrongSignature();
        }
        _perform(rows, count);
    }

    /// ERC-1271. The plain signature of 65 bytes over the hash, which is what those send who know the account as one without
    /// code (Permit2), or one of the two nested forms of ERC-7739.
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (signature.length == 0 && hash == NESTED_QUESTION) return NESTED_ANSWER;
        bool isValid = _isOwn(hash, signature) || _isOwn(_digestOf(_domain(), ERC7739Utils.personalSignStructHash(hash)), signature)
            || _isOwnNested(hash, signature);
        return isValid ? this.isValidSignature.selector : bytes4(0xffffffff);
    }

    /// ERC-5267: what a client needs to know to sign a nested form.
    function eip712Domain()
        external
        view
        returns (bytes1, string memory, string memory, uint256, address, bytes32, uint256[] memory)
    {
        return (0x0f, NAME, VERSION, block.chainid, address(this), bytes32(0), new uint256[](0));
    }

    function onERC721Received(address, address, uint256, bytes calldata) external pure returns (bytes4) {
        return this.onERC721Received.selector;
    }

    function onERC1155Received(address, address, uint256, uint256, bytes calldata) external pure returns (bytes4) {
        return this.onERC1155Received.selector;
    }

    function onERC1155BatchReceived(address, address, uint256[] calldata, uint256[] calldata, bytes calldata)
        external
        pure
        returns (bytes4)
    {
        return this.onERC1155BatchReceived.selector;
    }

    /// ERC-165: itself, ERC-1271, and the receivers of ERC-721 and ERC-1155.
    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x1626ba7e || id == 0x150b7a02 || id == 0x4e2312e0;
    }

    /// Calls are taken apart here and nowhere else: what is performed is what was hashed.
    /// @return hash of Call[], as EIP-712 has it
    /// @return rows where in memory the calls are, four words each: to, value, the place of the data in the calldata, their size
    function _read(bytes calldata calls) private pure returns (bytes32 hash, uint256 rows, uint256 count) {
        count = uint8(calls[0]);
        bytes32 callType = CALL_TYPE;
        bool isRead;
        assembly ("memory-safe") {
            rows := mload(0x40)
            let hashes := add(rows, shl(7, count))
            let input := add(hashes, shl(5, count))
            let widest := 0
            let place := add(calls.offset, 1)
            for { let i := 0 } lt(i, count) { i := add(i, 1) } {
                let row := add(rows, shl(7, i))
                let head := calldataload(place)
                let width := byte(20, head)
                if gt(width, widest) { widest := width }
                place := add(place, 21)
                let to := shr(96, head)
                // A value of no bytes is 0: shifting by 256 leaves nothing.
                let value := shr(sub(256, shl(3, width)), calldataload(place))
                place := add(place, width)
                let size := shr(232, calldataload(place))
                place := add(place, 3)
                mstore(row, to)
                mstore(add(row, 32), value)
                mstore(add(row, 64), place)
                mstore(add(row, 96), size)
                calldatacopy(add(input, 128), place, size)
                mstore(input, callType)
                mstore(add(input, 32), to)
                mstore(add(input, 64), value)
                mstore(add(input, 96), keccak256(add(input, 128), size))
                mstore(add(hashes, shl(5, i)), keccak256(input, 128))
                place := add(place, size)
            }
            // Every step goes forward: what was read beyond the end of the list does not end where the list does.
            isRead := and(eq(place, add(calls.offset, calls.length)), lt(widest, 33))
            hash := keccak256(hashes, shl(5, count))
            mstore(0x40, hashes)
        }
        if (!isRead) revert Malformed();
    }

    function _perform(uint256 rows, uint256 count) private {
        uint256 index = 0;
        assembly ("memory-safe") {
            // Behind all that is in use, each call in the same room.
            let input := mload(0x40)
            for {} lt(index, count) { index := add(index, 1) } {
                let row := add(rows, shl(7, index))
                let size := mload(add(row, 96))
                calldatacopy(input, mload(add(row, 64)), size)
                if iszero(call(gas(), mload(row), mload(add(row, 32)), input, size, 0, 0)) { break }
            }
        }
        if (index < count) revert CallFailed(index, _reason());
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

    /// keccak256(abi.encode(OPERATION_TYPE, dispatcher, …))
    function _operationHash(uint256 id, uint256 gasLimit, uint256 deadline, bytes32 calls) private view returns (bytes32 hash) {
        bytes32 operationType = OPERATION_TYPE;
        address by = dispatcher;
        assembly ("memory-safe") {
            let input := mload(0x40)
            mstore(input, operationType)
            mstore(add(input, 32), by)
            mstore(add(input, 64), id)
            mstore(add(input, 96), calls)
            mstore(add(input, 128), gasLimit)
            mstore(add(input, 160), deadline)
            hash := keccak256(input, 192)
        }
    }

    function _isOwnNested(bytes32 hash, bytes calldata nested) private view returns (bool) {
        (bytes calldata signature, bytes32 separator, bytes32 contents, string calldata description) =
            ERC7739Utils.decodeTypedDataSig(nested);
        (string calldata name, string calldata contentsType) = ERC7739Utils.decodeContentsDescr(description);
        if (bytes(name).length == 0 || hash != _digestOf(separator, contents)) return false;
        bytes memory domain =
            abi.encode(NAME_HASH, VERSION_HASH, block.chainid, address(this), bytes32(0));
        bytes32 wrapped = ERC7739Utils.typedDataSignStructHash(name, contentsType, contents, domain);
        return _isOwn(_digestOf(separator, wrapped), signature);
    }

    function _isOwn(bytes32 digest, bytes calldata signature) private view returns (bool) {
        if (signature.length != 65) return false;
        return _isOwn(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
    }

    /// Whether the account's own key made it. `ecrecover` gives nothing back for what is no signature: 0, where no account is.
    function _isOwn(bytes32 digest, uint256 v, bytes32 r, bytes32 s) private view returns (bool) {
        if (uint256(s) > MAX_S) return false;
        address signer;
        assembly ("memory-safe") {
            let input := mload(0x40)
            mstore(input, digest)
            mstore(add(input, 32), v)
            mstore(add(input, 64), r)
            mstore(add(input, 96), s)
            mstore(0, 0)
            pop(staticcall(gas(), 1, input, 128, 0, 32))
            signer := mload(0)
        }
        return signer == address(this);
    }

    /// keccak256(abi.encode(DOMAIN_TYPE, …)): the account, on the network where it is now
    function _domain() private view returns (bytes32 hash) {
        bytes32 domainType = DOMAIN_TYPE;
        bytes32 name = NAME_HASH;
        bytes32 version = VERSION_HASH;
        assembly ("memory-safe") {
            let input := mload(0x40)
            mstore(input, domainType)
            mstore(add(input, 32), name)
            mstore(add(input, 64), version)
            mstore(add(input, 96), chainid())
            mstore(add(input, 128), address())
            hash := keccak256(input, 160)
        }
    }

    /// keccak256(abi.encodePacked(hex"1901", domain, structHash))
    function _digestOf(bytes32 domain, bytes32 structHash) private pure returns (bytes32 hash) {
        assembly ("memory-safe") {
            let input := mload(0x40)
            mstore(input, shl(240, 0x1901))
            mstore(add(input, 2), domain)
            mstore(add(input, 34), structHash)
            hash := keccak256(input, 66)
        }
    }
}
