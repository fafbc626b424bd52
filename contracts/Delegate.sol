// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC7739Utils} from "@openzeppelin/contracts/utils/cryptography/draft-ERC7739Utils.sol";

/// The code of an account that has delegated to it (EIP-7702), so that a sponsor can pay for what the account signed.
/// Not audited. Threat model and invariants: docs/gas-contracts.md.
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
        bytes32 operation =
            keccak256(abi.encode(OPERATION_TYPE, dispatcher, id, _hashOf(calls), gasLimit, deadline));
        bytes32 s = vs & bytes32(uint256(type(int256).max));
        if (!_isOwn(_digestOf(_domain(), operation), 27 + uint8(uint256(vs) >> 255), r, s)) revert WrongSignature();
        _perform(calls);
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

    function _perform(bytes calldata calls) private {
        uint256 count = uint8(calls[0]);
        uint256 position = 1;
        for (uint256 i = 0; i < count; i++) {
            address to;
            uint256 value;
            bytes calldata data;
            (to, value, data, position) = _callAt(calls, position);
            bytes memory input = data;
            bool succeeded;
            assembly ("memory-safe") {
                succeeded := call(gas(), to, value, add(input, 32), mload(input), 0, 0)
            }
            if (!succeeded) revert CallFailed(i, _reason());
        }
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

    /// The hash of Call[] as EIP-712 has it.
    function _hashOf(bytes calldata calls) private pure returns (bytes32 hash) {
        bytes32[] memory hashes = new bytes32[](uint8(calls[0]));
        uint256 position = 1;
        for (uint256 i = 0; i < hashes.length; i++) {
            address to;
            uint256 value;
            bytes calldata data;
            (to, value, data, position) = _callAt(calls, position);
            hashes[i] = keccak256(abi.encode(CALL_TYPE, to, value, keccak256(data)));
        }
        if (position != calls.length) revert Malformed();
        assembly ("memory-safe") {
            hash := keccak256(add(hashes, 32), shl(5, mload(hashes)))
        }
    }

    /// @dev reverts where the list ends before the call does
    function _callAt(bytes calldata calls, uint256 position)
        private
        pure
        returns (address to, uint256 value, bytes calldata data, uint256 end)
    {
        to = address(bytes20(calls[position:position + 20]));
        uint256 size = uint8(calls[position + 20]);
        if (size > 32) revert Malformed();
        position += 21;
        if (size > 0) value = uint256(bytes32(calls[position:position + size])) >> (256 - 8 * size);
        position += size + 3;
        end = position + uint24(bytes3(calls[position - 3:position]));
        data = calls[position:end];
    }

    function _isOwnNested(bytes32 hash, bytes calldata nested) private view returns (bool) {
        (bytes calldata signature, bytes32 separator, bytes32 contents, string calldata description) =
            ERC7739Utils.decodeTypedDataSig(nested);
        (string calldata name, string calldata contentsType) = ERC7739Utils.decodeContentsDescr(description);
        if (bytes(name).length == 0 || hash != _digestOf(separator, contents)) return false;
        bytes memory domain =
            abi.encode(keccak256(bytes(NAME)), keccak256(bytes(VERSION)), block.chainid, address(this), bytes32(0));
        bytes32 wrapped = ERC7739Utils.typedDataSignStructHash(name, contentsType, contents, domain);
        return _isOwn(_digestOf(separator, wrapped), signature);
    }

    function _isOwn(bytes32 digest, bytes calldata signature) private view returns (bool) {
        if (signature.length != 65) return false;
        return _isOwn(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
    }

    /// Whether the account's own key made it. `ecrecover` answers 0 for what is no signature, and no account is there.
    function _isOwn(bytes32 digest, uint8 v, bytes32 r, bytes32 s) private view returns (bool) {
        return uint256(s) <= MAX_S && ecrecover(digest, v, r, s) == address(this);
    }

    function _domain() private view returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPE, keccak256(bytes(NAME)), keccak256(bytes(VERSION)), block.chainid, address(this))
        );
    }

    function _digestOf(bytes32 domain, bytes32 structHash) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }
}
