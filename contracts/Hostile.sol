// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

// Tokens for tests that break what a reader of tokens may hope for. Each misbehaves in one way.

abstract contract Ledger {
    event Transfer(address indexed from, address indexed to, uint256 value);

    mapping(address => uint256) internal held;

    function balanceOf(address owner) external view virtual returns (uint256) {
        return held[owner];
    }

    function mint(address to, uint256 amount) external {
        held[to] += amount;
        emit Transfer(address(0), to, amount);
    }

    function transfer(address to, uint256 amount) external virtual returns (bool) {
        held[msg.sender] -= amount;
        held[to] += amount;
        emit Transfer(msg.sender, to, amount);
        return true;
    }

    /// Nobody's permission is needed to move nothing: how histories are poisoned.
    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        require(amount == 0);
        emit Transfer(from, to, amount);
        return true;
    }
}

/// Like the first tokens: name and symbol as 32 bytes, decimals as uint256.
contract Bytes32Token is Ledger {
    bytes32 public constant name = "Old Token";
    bytes32 public constant symbol = "OLD";
    uint256 public constant decimals = 18;
}

contract NamelessToken is Ledger {}

contract RevertingToken is Ledger {
    function name() external pure returns (string memory) {
        revert("no name for you");
    }

    function symbol() external pure returns (string memory) {
        revert();
    }

    function decimals() external view returns (uint8) {
        assert(gasleft() == 0);
        return 0;
    }
}

contract EndlessToken is Ledger {
    uint8 public constant decimals = 18;

    function name() external view returns (string memory) {
        while (gasleft() > 0) {}
        return "";
    }

    function symbol() external view returns (string memory) {
        while (gasleft() > 0) {}
        return "";
    }
}

/// Three megabytes of name: about as much as 30 million gas of memory can hold.
contract HugeToken is Ledger {
    string public constant symbol = "HUGE";
    uint8 public constant decimals = 18;

    function name() external pure returns (string memory) {
        assembly ("memory-safe") {
            let size := 3145728
            let start := mload(0x40)
            mstore(start, 32)
            mstore(add(start, 32), size)
            return(start, add(size, 64))
        }
    }
}

contract Decimals255Token is Ledger {
    string public constant name = "Decimals";
    string public constant symbol = "D255";
    uint8 public constant decimals = 255;
}

/// Decimals that no uint8 holds.
contract DecimalsMaxToken is Ledger {
    string public constant name = "Decimals";
    string public constant symbol = "DMAX";
    uint256 public constant decimals = type(uint256).max;
}

/// NUL, a right-to-left override, zero-width characters, mark-up, a lone surrogate and a cut-off sequence.
contract ScrawlToken is Ledger {
    uint8 public constant decimals = 6;

    function symbol() external pure returns (string memory) {
        // NUL, U+202E, letters, U+200B, U+2066, a terminal colour
        return string(abi.encodePacked(hex"00", hex"e280ae", "CDSU", hex"e2808b", hex"e281a6", hex"1b5b33316d"));
    }

    function name() external pure returns (string memory) {
        return string(abi.encodePacked("<script>alert('x')</script>", hex"eda080", unicode"é", hex"0d0a", hex"e282"));
    }
}

contract LongNameToken is Ledger {
    uint8 public constant decimals = 18;
    string public constant symbol = "A-SYMBOL-OF-EIGHTY-LETTERS-A-SYMBOL-OF-EIGHTY-LETTERS-A-SYMBOL-OF-EIGHTY-LETTERS";
    string public constant name = "";
}

/// Answers that claim to be longer than they are, and a balance of one byte.
contract LyingToken is Ledger {
    function name() external pure returns (string memory) {
        assembly ("memory-safe") {
            mstore(0, 32)
            mstore(32, not(0))
            return(0, 64)
        }
    }

    function symbol() external pure returns (string memory) {
        assembly ("memory-safe") {
            mstore(0, not(0))
            return(0, 32)
        }
    }

    function balanceOf(address) external pure override returns (uint256) {
        assembly ("memory-safe") {
            mstore8(0, 7)
            return(0, 1)
        }
    }
}

contract RevertingBalance {
    function balanceOf(address) external pure returns (uint256) {
        revert("no balance for you");
    }
}

contract EndlessBalance {
    function balanceOf(address) external view returns (uint256) {
        while (gasleft() > 0) {}
        return 0;
    }
}

/// Answers every call, with nothing.
contract Silent {
    fallback() external payable {}
}

/// Answers every call with one true-like word.
contract Yes {
    fallback() external payable {
        assembly ("memory-safe") {
            mstore(0, 1)
            return(0, 32)
        }
    }
}

/// `transfer` answers false and moves nothing, or answers nothing at all.
contract FalseToken is Ledger {
    function transfer(address, uint256) external pure override returns (bool) {
        return false;
    }
}

/// Any log at all: transfer events with wrong data, unindexed arguments, unequal batches, thousands of elements.
contract Forger {
    function forge(bytes32[] calldata topics, bytes calldata data) external {
        bytes memory raw = data;
        bytes32[] memory t = topics;
        uint256 n = t.length;
        assembly ("memory-safe") {
            let start := add(raw, 32)
            let size := mload(raw)
            switch n
            case 0 { log0(start, size) }
            case 1 { log1(start, size, mload(add(t, 32))) }
            case 2 { log2(start, size, mload(add(t, 32)), mload(add(t, 64))) }
            case 3 { log3(start, size, mload(add(t, 32)), mload(add(t, 64)), mload(add(t, 96))) }
            default { log4(start, size, mload(add(t, 32)), mload(add(t, 64)), mload(add(t, 96)), mload(add(t, 128))) }
        }
    }

    function forgeMany(bytes32[] calldata topics, bytes calldata data, uint256 times) external {
        for (uint256 i = 0; i < times; i++) this.forge(topics, data);
    }
}
